import { clock } from '../../../clock.ts';
import type { DeviceHub } from '../../../hub/index.ts';
import { everyScope } from '../../../platform/http/access.ts';
import { route, type RouteGroup } from '../../../platform/http/route.ts';
import { askDevice } from '../access/ask-device.ts';
import { readOfDevice } from '../access/inventory-read.ts';
import { DeviceParams } from '../jobs/job.schema.ts';
import { DeviceVss } from './vss.schema.ts';

export const vssRoutes = ({ hub }: { hub: DeviceHub }): RouteGroup => ({
  name: 'Shadow copies',
  description: 'The volume shadow copies (VSS) of Windows, from which files in use are backed up.',
  routes: [
    route({
      method: 'get',
      path: '/backup/vss/status/:deviceId',
      summary: 'Read the state of the shadow copy writers of a device',
      description:
        'Read from the device while the caller waits, for at most 30 seconds. A device without Windows is answered with 409. Where Windows does not answer, 502 has the reason in `details.code`: ELEVATION_NEEDED, VSS_TIMED_OUT or VSS_FAILED.',
      access: everyScope('backup:read'),
      transaction: false,
      params: DeviceParams,
      response: DeviceVss,
      errors: ['device_offline', 'capability_missing', 'device_busy', 'device_error', 'device_timeout'],
      handler: async ({ ctx, params: { deviceId }, signal }) => {
        const question = { type: 'backup.vss-status', payload: {}, signal } as const;
        const status = await askDevice(ctx, deviceId, question, hub);
        return { data: { deviceId, checkedAt: clock.date().toISOString(), ...status } };
      },
      audit: readOfDevice('shadow copy writers'),
    }),
  ],
});
