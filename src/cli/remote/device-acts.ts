import { z } from 'zod';
import type { CommandIo } from '../io.ts';
import { act, type ActOptions, endsAll, failureOf, type Outcome } from './act.ts';
import { type Api, Refusal } from './api.ts';
import { localTime } from './local-time.ts';
import { siteNamed } from './names.ts';
import { EXIT, RemoteFailure } from './profiles.ts';
import type { Target } from './targets.ts';

/** `muster devices restart`, `maintenance`, `tag`, `move` and `approve`. */

const BULK_MAX = 1000;

const Sent = z.object({
  commands: z.array(
    z.object({ id: z.uuid(), deviceId: z.uuid(), waitsForDevice: z.boolean(), expiresAt: z.string() }),
  ),
  refused: z.array(Refusal),
});

export const restartDevices = (
  io: CommandIo,
  names: readonly string[],
  options: ActOptions & { delay?: number },
): Promise<number> =>
  act(io, names, options, async (api) => ({
    does: 'restarted; people who work at them lose what is not saved',
    atOnce: BULK_MAX,
    change: async (targets) => {
      const { commands, refused } = await api.postOnce('/devices/bulk/commands', Sent, {
        deviceIds: idsOf(targets),
        type: 'agent.reboot',
        payload: options.delay === undefined ? {} : { delaySeconds: options.delay },
      });
      const outcomes = new Map<string, Outcome>();
      for (const { deviceId, code, message } of refused) outcomes.set(deviceId, { ok: false, code, message });
      for (const { id, deviceId, waitsForDevice, expiresAt } of commands) {
        const message = waitsForDevice
          ? `Offline: it restarts when it is back, until ${localTime(expiresAt)}.`
          : 'It was told to restart.';
        outcomes.set(deviceId, { ok: true, message, commandId: id });
      }
      return outcomes;
    },
  }));

export const setMaintenance = (
  io: CommandIo,
  state: 'on' | 'off',
  names: readonly string[],
  options: ActOptions & { until?: string },
): Promise<number> => {
  const { until } = options;
  if (state === 'off' && until !== undefined) {
    throw new RemoteFailure(EXIT.failed, '--until is for maintenance that begins.');
  }
  const end = until === undefined ? '' : ` until ${localTime(until)}`;
  return act(io, names, options, async (api) => ({
    does: state === 'on' ? `put into maintenance${end}` : 'taken out of maintenance',
    atOnce: BULK_MAX,
    change: (targets) =>
      changeInBulk(api, targets, {
        action: { type: 'maintenance', enabled: state === 'on', ...(until === undefined ? {} : { until }) },
        done: state === 'on' ? `In maintenance${end}.` : 'Not in maintenance any more.',
      }),
  }));
};

export const tagDevices = (
  io: CommandIo,
  names: readonly string[],
  options: ActOptions & { add?: string[]; remove?: string[] },
): Promise<number> => {
  const { add, remove } = options;
  if (add === undefined && remove === undefined) {
    throw new RemoteFailure(EXIT.failed, 'Give tags with --add or --remove.');
  }
  return act(io, names, options, async (api) => ({
    does: 'given other tags',
    atOnce: BULK_MAX,
    change: (targets) =>
      changeInBulk(api, targets, {
        action: {
          type: 'tags',
          ...(add === undefined ? {} : { add }),
          ...(remove === undefined ? {} : { remove }),
        },
        done: 'Its tags were changed.',
      }),
  }));
};

const Changed = z.object({
  results: z.array(
    z.object({
      deviceId: z.uuid(),
      ok: z.boolean(),
      code: z.string().optional(),
      message: z.string().optional(),
    }),
  ),
});

async function changeInBulk(
  api: Api,
  targets: readonly Target[],
  { action, done }: { action: object; done: string },
): Promise<ReadonlyMap<string, Outcome>> {
  const body = { deviceIds: idsOf(targets), action };
  const { results } = await api.postOnce('/devices/bulk', Changed, body);
  return new Map(
    results.map(({ deviceId, ok, code, message }) => [
      deviceId,
      {
        ok,
        message: ok ? done : (message ?? 'Refused.'),
        ...(code === undefined ? {} : { code }),
      },
    ]),
  );
}

const Moved = z.object({
  groupsLeft: z.array(z.object({ name: z.string() })),
  customFieldsDropped: z.array(z.string()),
});

/** Within its organization a device moves to a site; to another organization, it leaves its groups as well. */
export const moveDevices = (
  io: CommandIo,
  names: readonly string[],
  options: ActOptions & { to: string },
): Promise<number> =>
  act(io, names, options, async (api) => {
    const site = await siteNamed(api, options.to);
    const isForeign = ({ orgId }: Target) => orgId !== site.orgId;
    return {
      does: `moved to the site ${site.name} (if that is in another organization, they leave their groups)`,
      isGrave: (targets) => targets.some(isForeign),
      atOnce: BULK_MAX,
      change: async (targets, isStopped) => {
        const outcomes = new Map<string, Outcome>();
        const near = targets.filter((target) => !isForeign(target));
        const action = { type: 'site', siteId: site.id };
        if (near.length > 0) {
          const changed = await changeInBulk(api, near, { action, done: `At the site ${site.name}.` });
          for (const [id, outcome] of changed) outcomes.set(id, outcome);
        }
        const to = { orgId: site.orgId, siteId: site.id };
        for (const { id } of targets.filter(isForeign)) {
          if (isStopped()) break;
          try {
            const moved = await api.post(`/devices/${id}/move`, Moved, to);
            outcomes.set(id, { ok: true, message: movedTo(site.name, moved) });
          } catch (error) {
            if (!(error instanceof RemoteFailure) || (endsAll(error) && outcomes.size === 0)) throw error;
            outcomes.set(id, failureOf(error, id));
            if (endsAll(error)) break;
          }
        }
        return outcomes;
      },
    };
  });

function movedTo(site: string, { groupsLeft, customFieldsDropped }: z.infer<typeof Moved>): string {
  const groups = groupsLeft.map(({ name }) => name);
  return [
    `At the site ${site}, of another organization.`,
    ...(groups.length === 0 ? [] : [`It has left ${groups.join(', ')}.`]),
    ...(customFieldsDropped.length === 0 ? [] : [`It has lost ${customFieldsDropped.join(', ')}.`]),
  ].join(' ');
}

export const approveDevices = (
  io: CommandIo,
  names: readonly string[],
  options: ActOptions,
): Promise<number> =>
  act(io, names, options, async (api) => ({
    does: 'approved as devices of their own',
    atOnce: 1,
    change: async ([target]) => {
      const { id = '' } = target ?? {};
      await api.post(`/devices/${id}/approve`, z.object({ id: z.uuid() }), {});
      return new Map([[id, { ok: true, message: 'Approved.' }]]);
    },
  }));

const idsOf = (targets: readonly Target[]) => targets.map(({ id }) => id);
