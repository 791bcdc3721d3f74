import { z } from 'zod';
import { listOf, nfcText, Timestamp } from '../../platform/http/fields.ts';
import { pageOf, PageQuery } from '../../platform/http/pagination.ts';
import { ServiceManager, ServiceState, StartMode } from '../../protocol/index.ts';

export const DeviceServiceQuery = PageQuery.extend({
  search: nfcText(100)
    .transform((part) => part.trim())
    .optional()
    .describe('Part of the name or of the display name, ignoring case.'),
  state: listOf(ServiceState),
});
export type DeviceServiceQuery = z.infer<typeof DeviceServiceQuery>;

export const DeviceService = z
  .object({
    name: z.string().describe('As the service manager names it; of systemd without the ending `.service`.'),
    displayName: z.string().nullable(),
    state: ServiceState.describe('`failed`: it has ended with an error.'),
    startMode: StartMode.nullable().describe('Null if it is not known.'),
    since: Timestamp.describe(
      'Since when it is in that state. A service that was in it before the first report has the time of that report.',
    ),
  })
  .meta({ id: 'DeviceService' });
export type DeviceService = z.input<typeof DeviceService>;

export const DeviceServicePage = pageOf(DeviceService).extend({
  manager: ServiceManager.nullable().describe(
    'What manages the services of the device; `none` on one without, null if its agent has never reported any.',
  ),
  reportedAt: Timestamp.nullable().describe(
    'When the device reported a change, or all of its services, last.',
  ),
  unlisted: z.number().int().describe('How many services the device has beyond those that are kept.'),
});
export type DeviceServicePage = z.input<typeof DeviceServicePage>;
