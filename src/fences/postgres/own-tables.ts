/** Tables of Tenure's own, in whatever schema they are: nobody else is to write them. */

interface OwnTables {
  /** A table, and a column of it, that tell them from tables of the same names. */
  readonly marker: readonly [table: string, column: string];
  /** Made together; or, where each may be missing and another's be there, with their columns. */
  readonly tables: readonly string[] | Readonly<Record<string, string>>;
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
    tables: {
      pattern: "pattern,version,store_id",
      cas: "name,version,value",
      claim: "seq,name,state,owner,holder,token,lease_ms,lease_until,reason,body",
      idempotency: "name,state,input_hash,result,expires",
      inbox: "event,consumer,at_ms",
      outbox_message:
        "seq,id,message_key,topic,payload,state,written_ms,due_ms,ended_ms,tries,reason",
      outbox_relay: "name,holder,token,until_ms",
      queue_counter: "slot,token",
      queue_key: "queue,job_key,ready_ms,until_ms,holder,worker,token,seq",
      queue_job:
        "seq,queue,job_key,id,payload,state,added_ms,due_ms,ended_ms,tries,token,reason",
      reservation_item: "name,capacity,taken",
      reservation: "item,holder,quantity,state,held_until",
      schedule_name: "name,upto_ms,token",
      schedule_fire:
        "name,fire_ms,state,holder,worker,token,until_ms,tries,started_ms,ended_ms,reason",
    },
  },
];

const VALUES = OWN.flatMap(({ marker, tables }) => {
  const columns = Array.isArray(tables)
    ? tables.map((table: string) => [table, ""])
    : Object.entries(tables);
  return columns.map((row) => `(${[...marker, ...row].map((name) => `'${name}'`).join(", ")})`);
}).join(", ");

/** Condition on a table `c` of the schema `n`, as in the catalog: it is none of these. */
export const IS_NOT_OWN: string = `NOT EXISTS (
    SELECT FROM (VALUES ${VALUES}) AS own (marker, attribute, name, columns)
    JOIN pg_class AS m ON m.relname = own.marker AND m.relnamespace = n.oid
    JOIN pg_attribute AS a ON a.attrelid = m.oid AND a.attname = own.attribute
    WHERE own.name = c.relname AND string_to_array(own.columns, ',') <@ ARRAY(
      SELECT attname::text FROM pg_attribute WHERE attrelid = c.oid AND NOT attisdropped))`;
