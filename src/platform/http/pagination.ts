import { z } from 'zod';

/** A number in a query string that is clamped to its bounds, not refused (SPEC 4.1); an empty value counts as absent. */
const clamped = (byDefault: number, min: number, max: number) =>
  z
    .string()
    .optional()
    .transform((text = '') => {
      const value = text.trim() === '' ? byDefault : Math.trunc(Number(text));
      return Number.isNaN(value) ? byDefault : Math.min(Math.max(value, min), max);
    });

const MAX_PAGE = 1_000_000;
const DEFAULT_LIMIT = 50;

/** Page and limit of a list. SPEC 8 gives some lists another largest page than the usual 100. */
export const pageQuery = ({ maxLimit = 100, maxPage = MAX_PAGE } = {}) =>
  z.object({
    page: clamped(1, 1, maxPage).meta({ type: 'string', description: 'Default 1; lower values count as 1.' }),
    limit: clamped(DEFAULT_LIMIT, 1, maxLimit).meta({
      type: 'string',
      description: `Default ${DEFAULT_LIMIT}; clamped to 1–${maxLimit}.`,
    }),
  });

export const PageQuery = pageQuery();
export type PageQuery = z.infer<typeof PageQuery>;

const PAGE_FIELDS = new Set(['page', 'limit', 'after', 'refresh']);

/** The conditions of a query, without its page and the age of the answer. */
export const withoutPage = (query: object): Record<string, unknown> =>
  Object.fromEntries(Object.entries(query).filter(([name]) => !PAGE_FIELDS.has(name)));

/** Rows before the page, which the database reads and skips. */
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
