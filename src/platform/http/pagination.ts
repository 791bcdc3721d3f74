import { z } from 'zod';

/** Page and limit of the lists in SPEC 4.1: what lies outside is clamped, not refused. */
const clamped = (byDefault: number, min: number, max: number) =>
  z
    .string()
    .optional()
    .transform((text) => {
      const value = Math.trunc(Number(text ?? byDefault));
      return Number.isNaN(value) ? byDefault : Math.min(Math.max(value, min), max);
    });

const MAX_PAGE = 1_000_000;

export const PageQuery = z.object({
  page: clamped(1, 1, MAX_PAGE).meta({ type: 'string', description: 'Default 1; lower values count as 1.' }),
  limit: clamped(50, 1, 100).meta({ type: 'string', description: 'Default 50; clamped to 1–100.' }),
});
export type PageQuery = z.infer<typeof PageQuery>;

/** Rows before the page, which the database reads and nobody is shown. */
const CHEAP_ROWS = 10_000;

/** Whether a query, of any route, asks for a page so far behind the first that finding it takes long. */
export function isDeepPage(query: unknown): boolean {
  if (typeof query !== 'object' || query === null || !('page' in query)) return false;
  const { page } = query;
  const limit = 'limit' in query && typeof query.limit === 'number' ? query.limit : 1;
  return typeof page === 'number' && page * limit > CHEAP_ROWS;
}

export const Pagination = z
  .object({ page: z.number().int(), limit: z.number().int(), total: z.number().int() })
  .meta({ id: 'Pagination' });

/** The answer of a paginated list. */
export const pageOf = <S extends z.ZodType>(item: S) =>
  z.object({ data: z.array(item), pagination: Pagination });

export interface Page<T> {
  data: T[];
  pagination: z.infer<typeof Pagination>;
}

/** Objection's page result as an answer. */
export function toPage<T>(query: PageQuery, result: { results: T[]; total: number }): Page<T> {
  return { data: result.results, pagination: { page: query.page, limit: query.limit, total: result.total } };
}
