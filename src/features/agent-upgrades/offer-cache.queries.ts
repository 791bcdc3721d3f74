import type { Db } from '../../../../platform/db/pool.ts';
import { type Tx, withSystem } from '../../../../platform/db/transaction.ts';
import { DeviceModel } from '../../../devices/index.ts';
import type { AgentUpdateSettings } from '../../../partners/index.ts';
import { AgentRelease } from '../../registry/release.model.ts';
import type { ReleaseKeys } from '../../registry/release-keys.ts';
import { liveRollouts } from '../../rollouts/live-rollouts.ts';
import type { LiveRollout } from '../../rollouts/wave.ts';
import { parseStored } from '../../targets/effective-settings.ts';
import { PinnedComponent } from '../../targets/target.schema.ts';
import type { Outdated } from './board-notice.ts';
import { heldAttempts } from '../held-attempt.queries.ts';
import type { HeldAttempt } from '../held-attempt.ts';

/** What offers are made of, as the database has it. Fields that were not asked for are undefined. */
export interface BoardRows {
  organizations: { id: string; partnerId: string; settings: AgentUpdateSettings }[] | undefined;
  partners: { id: string; settings: AgentUpdateSettings }[] | undefined;
  releases: { rows: AgentRelease[]; isTrusted: (release: AgentRelease) => boolean } | undefined;
  rollouts: LiveRollout[] | undefined;
  attempts: (HeldAttempt & { deviceId: string })[] | undefined;
  /** Whether devices may upgrade by themselves, of those that were asked for. */
  switches: { id: string; autoUpdate: boolean }[];
}

/** @param switched  devices whose switch is held */
export function readBoard(
  db: Db,
  keys: ReleaseKeys,
  outdated: Outdated,
  switched: readonly string[],
): Promise<BoardRows> {
  const { everything, organizations, partners, releases, rollouts, devices } = outdated;
  const some = (ids: ReadonlySet<string>) => (everything ? undefined : [...ids]);
  return withSystem(db, 'what decides about the upgrades of all devices', async (tx) => ({
    partners: everything || partners.size > 0 ? await partnersOf(tx, some(partners)) : undefined,
    organizations:
      everything || organizations.size > 0 ? await organizationsOf(tx, some(organizations)) : undefined,
    releases: everything || releases ? await trustedReleases(tx, keys) : undefined,
    rollouts: everything || rollouts ? await liveRollouts(tx) : undefined,
    attempts: everything || devices.size > 0 ? await heldAttempts(tx, some(devices)) : undefined,
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
