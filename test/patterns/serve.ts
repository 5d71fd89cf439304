/** The child's side of `children.ts`: reads an order per line, answers a line of JSON each. */
import { createInterface } from "node:readline";

/** What a child can be told, by the name of the order. */
export type Orders = Readonly<
  Record<string, (order: any) => Promise<object | void> | object | void>
>;

/** Says a word in the middle of an order. */
export function say(word: string): void {
  process.stdout.write(`${JSON.stringify({ word })}\n`);
}

/** Obeys until the input ends. Integers beyond doubles are answered as text. */
export function serve(orders: Orders): void {
  const text = (answer: object): string =>
    `${JSON.stringify(answer, (_, value: unknown) => (typeof value === "bigint" ? String(value) : value))}\n`;
  const tell = (answer: object): void => void process.stdout.write(text(answer));
  createInterface({ input: process.stdin }).on("line", (line) => {
    const order = JSON.parse(line) as { do: string };
    const obey = async (): Promise<object | void> => {
      const known = orders[order.do];
      if (known === undefined) throw new Error(`no such order: ${order.do}`);
      return await known(order);
    };
    obey().then(
      (answer) => tell({ answer: answer ?? null }),
      (error: Error) => tell({ error: `${error.name}: ${error.message}` }),
    );
  });
}
