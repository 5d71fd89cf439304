// Fifty buyers, five seats, and no lock: the database holds a seat for ten minutes while its buyer
// pays, and lets go by its own clock.
//   node seats.mjs theatre.db
import { reservations } from "tenure/reservations";

const seats = await reservations(`sqlite:${process.argv[2] ?? "theatre.db"}`);
await seats.define("hamlet/box", 5);

const buyers = Array.from({ length: 50 }, (_, i) => `buyer ${i}`);
const held = await Promise.all(
  buyers.map((buyer) => seats.reserve("hamlet/box", buyer, { for: "10m" })),
);
const lucky = buyers.filter((_, i) => held[i] !== null);
console.log(`${lucky.length} of ${buyers.length} have a seat`);

// One pays, one gives up: the seat of the second is free at once.
await seats.confirm("hamlet/box", lucky[0]!);
await seats.cancel("hamlet/box", lucky[1]!);
console.log(await seats.available("hamlet/box"));
await seats.close();
