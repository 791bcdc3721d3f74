import { z } from 'zod';
import { Id, text } from '../../../platform/http/fields.ts';

const fields = {
  itemIds: z.array(Id).min(1).max(1000).describe('Of one configuration.'),
  versionId: Id.optional().describe('An earlier content of the one item. Default: the newest contents.'),
  targetConnectionId: Id.optional().describe(
    'Another connection of the organization. Default: that of the configuration.',
  ),
  targetUser: z.email().max(320).toLowerCase().optional().describe('Default: the user of each item.'),
  targetFolder: text(100)
    .regex(/^[^/\\<>:"|?*%#]+$/, 'must be the name of a folder, without / and \\')
    .optional()
    .describe(
      'The folder, calendar or folder of contacts that takes the items; it is made where it is missing. Default: Restored by Muster. Nothing that exists is overwritten.',
    ),
};

export const NewCloudRestore = z
  .strictObject(fields)
  .refine(({ itemIds, versionId }) => versionId === undefined || itemIds.length === 1, {
    path: ['versionId'],
    message: 'must not be given with several items',
  });
export type NewCloudRestore = z.infer<typeof NewCloudRestore>;
