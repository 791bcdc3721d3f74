import { z } from 'zod';
import { JsonColumn, JsonInput, nfcText, Timestamp } from '../../platform/http/fields.ts';

const SEARCH_MAX = 4000;

const List = z
  .string()
  .max(40)
  .regex(/^[a-z][a-z-]*$/, 'must be the name of a list, such as devices');
const Name = nfcText(60);
const Search = JsonInput.refine(
  (search) => JSON.stringify(search).length <= SEARCH_MAX,
  `must have at most ${SEARCH_MAX} characters of JSON`,
).describe('What is chosen on the page, as its address has it.');

export const SavedView = z
  .object({
    id: z.uuid(),
    list: z.string(),
    name: z.string(),
    search: JsonColumn,
    isShared: z
      .boolean()
      .describe('Whether colleagues see it: people of the same organization, or of the same partner.'),
    isOwn: z.boolean().describe('Whether the caller made it, and can change it.'),
    ownerName: z.string(),
    updatedAt: Timestamp,
  })
  .meta({ id: 'SavedView' });
export type SavedView = z.input<typeof SavedView>;

export const SavedViewQuery = z.object({ list: List });
export type SavedViewQuery = z.infer<typeof SavedViewQuery>;

export const NewSavedView = z.strictObject({
  list: List,
  name: Name,
  search: Search,
  isShared: z.boolean().default(false),
});
export type NewSavedView = z.infer<typeof NewSavedView>;

export const SavedViewPatch = z.strictObject({
  name: Name.optional(),
  search: Search.optional(),
  isShared: z.boolean().optional(),
});
export type SavedViewPatch = z.infer<typeof SavedViewPatch>;
