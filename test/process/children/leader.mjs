// Leads and writes its term through a fence. Once it learns that it leads no more, it says what
// became of its term, and of a late write. It must not be frozen inside a transaction, which would
// hold up whoever comes next: so it waits without writing.
import { connect } from "tenure";
import { election } from "tenure/election";
import { sqliteFence } from "tenure/fences/sqlite";

const [url, file] = process.argv.slice(2);
const tenure = await connect(url);
const fence = sqliteFence(file);
const term = await election(tenure, "job", { ttl: 800 }).campaign();
const handle = await fence.arm(term, "report");
await handle.write((tx) => {
  tx.exec("CREATE TABLE report (term TEXT)");
  tx.run("INSERT INTO report VALUES (?)", String(term.term));
});
process.stdout.write(`${term.term}\n`);
if (!term.signal.aborted) {
  await new Promise((aborted) => term.signal.addEventListener("abort", aborted));
}
let assertion = "leads";
try {
  term.assertLeading();
} catch (error) {
  assertion = error.name;
}
// With a bearer that knows no signal: the fence alone decides.
const { name, token, holder, storeId } = term;
let late = "written";
try {
  const again = await fence.arm({ name, token, holder, storeId }, "report");
  await again.write((tx) => tx.run("INSERT INTO report VALUES ('late')"));
} catch (error) {
  late = error.name;
}
process.stdout.write(`${JSON.stringify({ assertion, late, reason: term.signal.reason.reason })}\n`);
await tenure.close();
await fence.close();
