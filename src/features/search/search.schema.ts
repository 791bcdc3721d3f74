import { z } from 'zod';
import { nfcText, wholeNumber } from '../../platform/http/fields.ts';

export const SearchQuery = z.object({
  q: z
    .string()
    .transform((words) => words.trim())
    .pipe(nfcText(100))
    .describe('Part of a name, title or description, case-insensitive. Wildcards are matched literally.'),
  limit: wholeNumber(20, 1, 50).meta({ description: '1 to 50; default 20.' }),
});
export type SearchQuery = z.infer<typeof SearchQuery>;

export const SearchResult = z
  .object({
    id: z.string(),
    type: z.enum(['devices', 'scripts', 'alerts', 'settings']),
    title: z.string(),
    description: z.string().optional(),
    href: z.string().optional().describe('Settings only: the path of the page.'),
  })
  .meta({ id: 'SearchResult' });
export type SearchResult = z.infer<typeof SearchResult>;

export const SearchAnswer = z.object({ results: z.array(SearchResult) });
