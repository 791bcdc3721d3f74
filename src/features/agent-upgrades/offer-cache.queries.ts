import type { Db } from '../../platform/db/pool.ts';
import { type Tx, withSystem } from '../../platform/db/transaction.ts';
import { DeviceModel } from '../devices/index.ts';
import { type UpgradePause, upgradePauses } from '../maintenance-windows/index.ts';
import type { AgentUpdateSettings } from '../partners/index.ts';
import { AgentRelease, type ReleaseKeys } from '../releases/index.ts';
import { liveRollouts } from './rollout.queries.ts';
import { type LiveRollout, parseStored } from './resolve-target.ts';
import { PinnedComponent } from './upgrade.schema.ts';
import { heldAttempts } from './upgrade.queries.ts';
import type { HeldAttempt } from './attempts.ts';
import { z } from 'zod';

/** The channel on which the database announces what decides about upgrades (migrations/0012_releases.sql). */
export const UPGRADES_CHANNEL = 'muster_upgrades';

const Notice = z.object({
  kind: z.enum(['organization', 'partner', 'releases', 'rollout', 'device', 'maintenance']),
  id: z.uuid().nullable(),
});

/** The parts that have to be read again. */
export interface Outdated {
  everything: boolean;
  organizations: Set<string>;
  partners: Set<string>;
  releases: boolean;
  rollouts: boolean;
  devices: Set<string>;
  /** Maintenance windows whose devices have changed. */
  windows: Set<string>;
}

export const nothingOutdated = (): Outdated => ({
  everything: false,
  organizations: new Set(),
  partners: new Set(),
  releases: false,
  rollouts: false,
  devices: new Set(),
  windows: new Set(),
});

/** A notice that cannot be understood, such as one of a later release, may be about anything. */
export function note(outdated: Outdated, payload: string): void {
  const notice = parse(payload);
  if (notice === undefined) {
    outdated.everything = true;
    return;
  }
  const { kind, id } = notice;
  if (kind === 'releases') outdated.releases = true;
  else if (kind === 'rollout') outdated.rollouts = true;
  else if (id === null) outdated.everything = true;
  else if (kind === 'organization') outdated.organizations.add(id);
  else if (kind === 'partner') outdated.partners.add(id);
  else if (kind === 'maintenance') outdated.windows.add(id);
  else outdated.devices.add(id);
}

function parse(payload: string): z.infer<typeof Notice> | undefined {
  try {
    return Notice.safeParse(JSON.parse(payload)).data;
  } catch {
    return undefined;
  }
}

/** The stored facts that offers are made of. Fields that were not asked for are undefined. */
export interface BoardRows {
  organizations: { id: string; partnerId: string; settings: AgentUpdateSettings }[] | undefined;
  partners: { id: string; settings: AgentUpdateSettings }[] | undefined;
  releases: { rows: AgentRelease[]; isTrusted: (release: AgentRelease) => boolean } | undefined;
  rollouts: LiveRollout[] | undefined;
  attempts: (HeldAttempt & { deviceId: string })[] | undefined;
  /** The maintenance windows that keep back upgrades. */
  pauses: UpgradePause[] | undefined;
  /** Whether devices may upgrade by themselves, of those that were asked for. */
  switches: { id: string; autoUpdate: boolean }[];
}

/** @param switched  devices whose switch is held */
export function readUpgradeOffers(
  db: Db,
  keys: ReleaseKeys,
  outdated: Outdated,
  switched: readonly string[],
): Promise<BoardRows> {
  const { everything, organizations, partners, releases, rollouts, devices, windows } = outdated;
  const some = (ids: ReadonlySet<string>) => (everything ? undefined : [...ids]);
  return withSystem(db, 'what decides about the upgrades of all devices', async (tx) => ({
    partners: everything || partners.size > 0 ? await partnersOf(tx, some(partners)) : undefined,
    organizations:
      everything || organizations.size > 0 ? await organizationsOf(tx, some(organizations)) : undefined,
    releases: everything || releases ? await trustedReleases(tx, keys) : undefined,
    rollouts: everything || rollouts ? await liveRollouts(tx) : undefined,
    attempts: everything || devices.size > 0 ? await heldAttempts(tx, some(devices)) : undefined,
    pauses: everything || windows.size > 0 ? await upgradePauses(tx, some(windows)) : undefined,
    switches: await switchesOf(tx, everything ? [...devices, ...switched] : [...devices]),
  }));
}

/** Most tenants set nothing, and share this. */
const NONE: AgentUpdateSettings = Object.freeze({});
const settingsOf = (stored: unknown) =>
  stored === null || stored === undefined ? NONE : parseStored(stored);

async function organizationsOf(tx: Tx, ids: string[] | undefined) {
  const query = tx('organizations')
    .whereNull('deleted_at')
    .select<{ id: string; partner_id: string; settings: unknown }[]>(
      'id',
      'partner_id',
      tx.raw(`settings -> 'agentUpdates' as settings`),
    );
  if (ids !== undefined) void query.whereRaw('id = any(?::uuid[])', [ids]);
  return (await query).map(({ id, partner_id: partnerId, settings }) => ({
    id,
    partnerId,
    settings: settingsOf(settings),
  }));
}

async function partnersOf(tx: Tx, ids: string[] | undefined) {
  const query = tx('partners')
    .whereNull('deleted_at')
    .select<{ id: string; settings: unknown }[]>('id', tx.raw(`settings -> 'agentUpdates' as settings`));
  if (ids !== undefined) void query.whereRaw('id = any(?::uuid[])', [ids]);
  return (await query).map(({ id, settings }) => ({ id, settings: settingsOf(settings) }));
}

async function trustedReleases(tx: Tx, keys: ReleaseKeys) {
  const rows = await AgentRelease.query(tx).whereIn('component', PinnedComponent.options);
  return { rows, isTrusted: await keys.verifier(tx) };
}

async function switchesOf(tx: Tx, ids: string[]) {
  if (ids.length === 0) return [];
  const devices = await DeviceModel.query(tx)
    .whereRaw('id = any(?::uuid[])', [ids])
    .select('id', 'auto_update');
  return devices.map(({ id, autoUpdate }) => ({ id, autoUpdate }));
}
