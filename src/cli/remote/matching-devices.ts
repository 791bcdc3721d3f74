import { z } from 'zod';
import {
  DevicesDelta,
  DevicesEnded,
  DevicesSnapshot,
  type DevicesSubscribe,
  type DeviceSummary,
} from '../../protocol/index.ts';
import type { Api } from './server/api.ts';
import { EXIT, RemoteFailure } from './server/failure.ts';
import type { HubConnection } from './server/hub-connection.ts';

const Ok = z.object({ ok: z.literal(true) });
const isId = (text: string) => z.uuid().safeParse(text).success;

/** All devices that match now: a subscription that is ended when it is complete. Sorted by host name. */
export async function matchingDevices(
  hub: HubConnection,
  wanted: DevicesSubscribe,
): Promise<DeviceSummary[]> {
  const devices = new Map<string, DeviceSummary>();
  // Deltas may come before we have read the acknowledgement.
  const early: z.infer<typeof DevicesDelta>[] = [];
  let take = (delta: z.infer<typeof DevicesDelta>) => void early.push(delta);
  let subscriptionId = '';
  const complete = new Promise<void>((resolve, reject) => {
    hub.on('devices:delta', DevicesDelta, (delta) => take(delta));
    hub.on('devices:ended', DevicesEnded, (end) => {
      if (end.subscriptionId === subscriptionId) reject(new RemoteFailure(EXIT.failed, end.message));
    });
    hub.ask('devices:subscribe', wanted, DevicesSnapshot).then((snapshot) => {
      ({ subscriptionId } = snapshot);
      for (const device of snapshot.devices) devices.set(device.id, device);
      take = (delta) => {
        if (delta.subscriptionId !== subscriptionId) return;
        for (const device of delta.entered) devices.set(device.id, device);
        for (const id of delta.left) devices.delete(id);
        if (delta.complete === true) resolve();
      };
      for (const delta of early) take(delta);
      if (snapshot.complete) resolve();
    }, reject);
  });
  await Promise.race([complete, hub.lost]);
  await hub.ask('devices:unsubscribe', { subscriptionId }, Ok);
  return [...devices.values()].sort((one, other) => (one.hostname < other.hostname ? -1 : 1));
}

/** The id of a saved filter, which the user may name by its name. */
export async function filterIdOf(api: Api, named: string): Promise<string> {
  if (isId(named)) return named.toLowerCase();
  const { data } = await api.get('/filters', z.object({ data: z.array(Named) }), { search: named });
  return theOne(
    'filter',
    named,
    data.filter(({ name }) => name === named),
  ).id;
}
const Named = z.object({ id: z.uuid(), name: z.string() });

const Found = z.object({ id: z.uuid(), hostname: z.string(), displayName: z.string().nullable() });
export type Found = z.infer<typeof Found>;

/** A device by its id, its host name or its display name. */
export async function deviceNamed(api: Api, named: string): Promise<Found> {
  if (isId(named)) return api.get(`/devices/${named}`, Found);
  const { data } = await api.get('/devices', z.object({ data: z.array(Found) }), {
    search: named,
    limit: '100',
  });
  const wanted = named.toLowerCase();
  const found = data.filter(({ hostname, displayName }) =>
    [hostname, displayName].some((name) => name?.toLowerCase() === wanted),
  );
  return theOne('device', named, found);
}

function theOne<T extends { id: string }>(kind: string, named: string, found: readonly T[]): T {
  const [first, ...others] = found;
  if (first === undefined) {
    throw new RemoteFailure(EXIT.failed, `There is no ${kind} ${named} that you may see.`);
  }
  if (others.length > 0) {
    throw new RemoteFailure(
      EXIT.failed,
      `${found.length} ${kind}s are called ${named}. Give the id of one: ${found.map(({ id }) => id).join(', ')}.`,
    );
  }
  return first;
}
