/** An SQL fragment with a `?` for each value. */
export interface Sql {
  text: string;
  values: readonly SqlValue[];
}
export type SqlValue = string | number | readonly string[];

export const sql = (text: string, ...values: readonly SqlValue[]): Sql => ({ text, values });
