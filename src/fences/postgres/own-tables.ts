/** Tables of Tenure's own, in whatever schema they are: nobody else is to write them. */

interface OwnTables {
  /** A table, and a column of it, that tell them from tables of the same names. */
  readonly marker: readonly [table: string, column: string];
  readonly tables: readonly string[];
}

const OWN: readonly OwnTables[] = [
  { marker: ["store", "only_row"], tables: ["store", "counter", "lease"] },
  {
    marker: ["advisory_store", "only_row"],
    tables: ["advisory_store", "advisory_counter", "advisory_lease"],
  },
  {
    marker: ["fence_version", "only_row"],
    tables: ["fence_version", "fence_mark", "fence_table", "fence_audit"],
  },
  {
    marker: ["pattern", "store_id"],
    tables: [
      ...["pattern", "cas", "claim", "idempotency", "inbox", "outbox_message", "outbox_relay"],
      ...["queue_counter", "queue_key", "queue_job", "reservation_item", "reservation"],
      ...["schedule_name", "schedule_fire"],
    ],
  },
];

const VALUES = OWN.flatMap(({ marker, tables }) =>
  tables.map((table) => `(${[...marker, table].map((name) => `'${name}'`).join(", ")})`),
).join(", ");

/** Condition on a table `c` of the schema `n`, as in the catalog: it is none of these. */
export const IS_NOT_OWN: string = `NOT EXISTS (
    SELECT FROM (VALUES ${VALUES}) AS own (marker, attribute, name)
    JOIN pg_class AS m ON m.relname = own.marker AND m.relnamespace = n.oid
    JOIN pg_attribute AS a ON a.attrelid = m.oid AND a.attname = own.attribute
    WHERE own.name = c.relname)`;
