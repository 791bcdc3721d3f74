import type { Context } from '../../../platform/context.ts';
import { withoutPage } from '../../../platform/http/pagination.ts';
import type { AuditNote } from '../../../platform/http/route.ts';
import { noteOfDevice } from '../../devices/index.ts';

/** Entries of the audit trail about who has read what devices list of themselves: databases, machines, shadow copies. */

const READ = { action: 'data.access', resource: 'device' } as const;

interface Asked {
  ctx: Context;
  params: { deviceId: string };
  query: object | undefined;
}

/** Of the device that the path names. */
export const readOfDevice = (what: string) => ({
  ...READ,
  coversPages: true as const,
  note: (_answer: unknown, { ctx, params: { deviceId }, query = {} }: Asked): Promise<AuditNote> =>
    noteOfDevice(ctx, deviceId, { what, ...withoutPage(query) }),
});

/** Of many devices: an entry for each organization of which something is shown, which another page may have more of. */
export const readOfDevices = (what: string) => ({
  ...READ,
  note: ({ data }: { data: readonly { orgId: string }[] }, { query }: { query: object }): AuditNote[] =>
    [...new Set(data.map(({ orgId }) => orgId))].map((orgId) => ({
      orgId,
      details: { what, ...withoutPage(query), shown: data.filter((each) => each.orgId === orgId).length },
    })),
});
