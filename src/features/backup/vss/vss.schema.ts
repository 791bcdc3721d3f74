import { z } from 'zod';
import { VssStatus } from '../../../protocol/index.ts';

export const DeviceVss = z
  .object({ data: VssStatus.extend({ deviceId: z.uuid(), checkedAt: z.iso.datetime() }) })
  .meta({ id: 'DeviceVss' });
export type DeviceVss = z.infer<typeof DeviceVss>;
