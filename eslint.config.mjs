import tseslint from "typescript-eslint";

const noDefaultExport = {
  selector: "ExportDefaultDeclaration",
  message: "Export by name: a default export has a different name in every file that imports it.",
};

const noTokenCast = ["TSAsExpression", "TSTypeAssertion"].map((cast) => ({
  selector: `${cast} > TSTypeReference.typeAnnotation > Identifier[name="FencingToken"]`,
  message:
    "Make tokens with the functions of src/core/token.ts: a cast lets any bigint through a fence.",
}));

const testCall = "CallExpression[callee.object.name=/^(it|test|describe)$/]";

const ambientTime = [
  ["Date", "Use the Clock that was passed in (src/core/clock.ts)."],
  ["performance", "Use the Clock that was passed in (src/core/clock.ts)."],
  ["setTimeout", "Use the timers of the Clock that was passed in (src/core/clock.ts)."],
  ["setInterval", "Use the timers of the Clock that was passed in, and chain them."],
  ["setImmediate", "Use the timers of the Clock that was passed in, or queueMicrotask."],
  ["crypto", "Use the Random that was passed in (src/core/random.ts)."],
].map(([name, message]) => ({ name, message }));

const surroundings = [
  ["process", "Pass the value in: only src/platform and src/cli see the process."],
  ["console", "Publish an event (src/core/events.ts): only src/cli prints."],
].map(([name, message]) => ({ name, message }));

const ambientModules = [
  ["timers", "Use the timers of the Clock that was passed in (src/core/clock.ts)."],
  ["timers/promises", "Use the timers of the Clock that was passed in (src/core/clock.ts)."],
  ["perf_hooks", "Use the Clock that was passed in (src/core/clock.ts)."],
  ["process", "Pass the value in: only src/platform and src/cli see the process."],
  ["console", "Publish an event (src/core/events.ts): only src/cli prints."],
  ["os", "Pass the value in: only src/platform and src/cli ask the machine."],
];

/** Names the way out for each module, with and without the node: prefix. */
const restrictModules = (modules) => ({
  paths: modules.flatMap(([name, message]) => [
    { name, message },
    { name: `node:${name}`, message },
  ]),
});

const ambientProperties = [
  {
    object: "Math",
    property: "random",
    message: "Use the Random that was passed in (src/core/random.ts).",
  },
  {
    object: "AbortSignal",
    property: "timeout",
    message: "Use an AbortController and a timer of the Clock: this one is unref'd and not ours.",
  },
];

export default tseslint.config(
  { ignores: ["dist/", "dist-*/", "node_modules/", "coverage/", ".verify/"] },
  {
    files: ["**/*.ts"],
    extends: [...tseslint.configs.recommendedTypeChecked],
    languageOptions: {
      parserOptions: { project: "tsconfig.json", tsconfigRootDir: import.meta.dirname },
    },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      // `void` says that nobody awaits it on purpose; the promise must not reject then.
      "@typescript-eslint/no-floating-promises": "error",
      "@typescript-eslint/no-misused-promises": "error",
      "@typescript-eslint/await-thenable": "error",
      "@typescript-eslint/consistent-type-imports": ["error", { fixStyle: "inline-type-imports" }],
      "@typescript-eslint/switch-exhaustiveness-check": [
        "error",
        { considerDefaultExhaustiveForUnions: true },
      ],
      "@typescript-eslint/return-await": ["error", "error-handling-correctness-only"],
      "@typescript-eslint/no-unused-vars": [
        "error",
        { argsIgnorePattern: "^_", varsIgnorePattern: "^_", caughtErrors: "none" },
      ],
      // An abort rejects with the caller's own reason, which may be anything.
      "@typescript-eslint/prefer-promise-reject-errors": [
        "error",
        { allowThrowingAny: true, allowThrowingUnknown: true },
      ],
      "@typescript-eslint/only-throw-error": [
        "error",
        { allowThrowingAny: true, allowThrowingUnknown: true },
      ],
      // A backend's contract is asynchronous even where its store answers at once.
      "@typescript-eslint/require-await": "off",
      eqeqeq: "error",
      "no-console": "off",
      "no-restricted-syntax": ["error", noDefaultExport],
    },
  },
  {
    files: ["**/*.{ts,mjs,cjs}"],
    // A rule and its reason stand better on one line each.
    ignores: [".dependency-cruiser.cjs"],
    rules: {
      "max-len": [
        "error",
        { code: 100, ignoreUrls: true, ignoreRegExpLiterals: true, ignorePattern: "^import " },
      ],
    },
  },
  {
    files: ["src/**/*.ts"],
    // turn.ts gives the engine a turn of the real loop, and lets no time pass. tripwires.ts puts
    // what nobody else may name out of everybody's reach, and calls none of it.
    ignores: ["src/platform/**", "src/cli/**", "src/lab/{turn,tripwires}.ts"],
    rules: {
      "no-restricted-globals": [
        "error",
        { globals: [...ambientTime, ...surroundings], checkGlobalObject: true },
      ],
      "@typescript-eslint/no-restricted-imports": ["error", restrictModules(ambientModules)],
    },
  },
  {
    files: ["src/cli/**/*.ts"],
    rules: {
      "no-restricted-globals": ["error", { globals: ambientTime, checkGlobalObject: true }],
    },
  },
  {
    files: ["src/**/*.ts"],
    ignores: ["src/platform/**"],
    rules: { "no-restricted-properties": ["error", ...ambientProperties] },
  },
  {
    files: ["src/**/*.ts"],
    ignores: ["src/core/token.ts"],
    rules: { "no-restricted-syntax": ["error", noDefaultExport, ...noTokenCast] },
  },
  {
    files: ["test/**/*.ts", "bench/**/*.ts", "examples/**/*.ts", "scripts/**/*.ts"],
    rules: {
      // The title of a test is a sentence, and stays on its line.
      "max-len": ["error", { code: 100, ignoreUrls: true, ignoreStrings: true }],
      // Tests feed wrong values on purpose, and read what a child process printed.
      "@typescript-eslint/no-explicit-any": "off",
      "@typescript-eslint/no-unsafe-argument": "off",
      "@typescript-eslint/no-unsafe-assignment": "off",
      "@typescript-eslint/no-unsafe-call": "off",
      "@typescript-eslint/no-unsafe-member-access": "off",
      "@typescript-eslint/no-unsafe-return": "off",
      "@typescript-eslint/unbound-method": "off",
    },
  },
  {
    // Written to be compiled, never run.
    files: ["test/types/*.ts"],
    rules: {
      "@typescript-eslint/no-unused-vars": "off",
      "@typescript-eslint/no-floating-promises": "off",
    },
  },
  {
    files: ["test/**/*.ts"],
    rules: {
      "no-restricted-syntax": [
        "error",
        noDefaultExport,
        {
          selector: `${testCall}[callee.property.name="only"]`,
          message: "Run one test with `npx vitest run -t NAME`: .only silences all the others.",
        },
        {
          selector: `${testCall}[callee.property.name=/^(skip|todo)$/]`,
          message: "Use skipIf or runIf with the condition that is missing, or delete the test.",
        },
      ],
    },
  },
  { files: ["*.config.ts"], rules: { "no-restricted-syntax": "off" } },
);
