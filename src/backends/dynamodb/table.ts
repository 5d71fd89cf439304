/** The table of leases, for those who make it: nobody else does. */
import { ArgumentTypeError } from "../../core/errors.js";
import { KEY } from "./record.js";

/** Forms in which the table can be printed. */
export const TABLE_FORMS = ["json", "cloudformation", "terraform"] as const;

/** One of {@link TABLE_FORMS}. */
export type TableForm = (typeof TABLE_FORMS)[number];

/** Options of {@link tableDefinition}. */
export interface TableOptions {
  /** Name of the table. Default `tenure`. */
  readonly table?: string;
  /**
   * `json` (default): what `aws dynamodb create-table --cli-input-json` and `CreateTable` take;
   * `cloudformation`: a template; `terraform`: a resource.
   */
  readonly form?: TableForm;
}

/**
 * The definition of the table that leases and marks need, as text for infrastructure code.
 *
 * It is protected against deletion: with the table all tokens would begin again. It has no TTL, and
 * must get none.
 *
 * @throws TypeError for what is no name of a table.
 */
export function tableDefinition({ table = "tenure", form = "json" }: TableOptions = {}): string {
  if (!/^[A-Za-z0-9_.-]{3,255}$/.test(table)) {
    throw new ArgumentTypeError("table", table, "3 to 255 of A-Z a-z 0-9 _ . -");
  }
  return { json, cloudformation, terraform }[form](table);
}

function json(table: string): string {
  const definition = {
    TableName: table,
    AttributeDefinitions: [{ AttributeName: KEY, AttributeType: "S" }],
    KeySchema: [{ AttributeName: KEY, KeyType: "HASH" }],
    BillingMode: "PAY_PER_REQUEST",
    DeletionProtectionEnabled: true,
  };
  return JSON.stringify(definition, undefined, 2);
}

function cloudformation(table: string): string {
  return `AWSTemplateFormatVersion: "2010-09-09"
Resources:
  TenureTable:
    Type: AWS::DynamoDB::Table
    DeletionPolicy: Retain
    UpdateReplacePolicy: Retain
    Properties:
      TableName: "${table}"
      BillingMode: PAY_PER_REQUEST
      DeletionProtectionEnabled: true
      AttributeDefinitions:
        - AttributeName: ${KEY}
          AttributeType: S
      KeySchema:
        - AttributeName: ${KEY}
          KeyType: HASH
      # No TimeToLiveSpecification: an item that is deleted takes its tokens with it.`;
}

function terraform(table: string): string {
  return `resource "aws_dynamodb_table" "tenure" {
  name                        = "${table}"
  billing_mode                = "PAY_PER_REQUEST"
  deletion_protection_enabled = true
  hash_key                    = "${KEY}"

  attribute {
    name = "${KEY}"
    type = "S"
  }

  # No ttl block: an item that is deleted takes its tokens with it.
  lifecycle {
    prevent_destroy = true
  }
}`;
}
