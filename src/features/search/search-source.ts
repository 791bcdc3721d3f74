import type { Caller } from '../../platform/context.ts';
import { BETWEEN_TEXTS } from './rank.ts';
import type { SearchResult } from './search.schema.ts';

/** How search finds the records of one table. The feature that owns the table provides it. */
export interface SearchSource {
  type: Exclude<SearchResult['type'], 'settings'>;
  permission: string;
  table: string;
  /** SQL: whether the caller can see `s`, a row of the table. `:partnerId` is the partner of the caller. */
  where: (caller: Caller) => string;
  /** SQL: the two texts that are searched, in lower case and joined by `BETWEEN_TEXTS`. */
  haystack: string;
  title: string;
  description: string;
  /** SQL: orders equally good results. */
  order: string;
}

/** SQL: a haystack of two columns. */
export const haystackOf = (first: string, second: string): string =>
  `lower(${first} || chr(${BETWEEN_TEXTS.charCodeAt(0)}) || coalesce(${second}, ''))`;
