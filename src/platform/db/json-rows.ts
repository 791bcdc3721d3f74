import { snakeCaseMappers } from 'objection';
import { z } from 'zod';

const columnNames = snakeCaseMappers();
const ISO_8601 = `YYYY-MM-DD"T"HH24:MI:SS.MS"Z"`;

/**
 * SQL for a row as JSON: the fields of the schema and no others, in its order, each from the column of its name. Times
 * are recognized by `timestamp`, the schema that all of them share.
 */
export function rowAsJson(schema: z.ZodObject, row: string, timestamp: z.ZodType): string {
  const isTime = (field: unknown): boolean =>
    field === timestamp || (field instanceof z.ZodNullable && isTime(field.unwrap()));
  const fields = Object.entries(schema.shape).map(([name, field]) => {
    const [columnName] = Object.keys(columnNames.format({ [name]: null }));
    const column = `${row}.${columnName}`;
    return `'${name}', ${isTime(field) ? `to_char(${column} at time zone 'UTC', '${ISO_8601}')` : column}`;
  });
  return `json_build_object(${fields.join(', ')})`;
}
