// Agents report their inventory daily, and hardly any of it has changed, so only differences are written. Each title is
// stored once per organization, which makes the search for a part of a name cheap. A part that is missing from a report
// changes nothing, and a source that failed keeps what it had. Foreign keys move an inventory together with its device.
import { isDeepStrictEqual } from 'node:util';
import type { DeviceHub } from '../../hub/index.ts';
import type { AgentContext, Context } from '../../platform/context.ts';
import { containing, nameOrder, inTenant } from '../../platform/db/statement.ts';
import { runPrepared } from '../../platform/db/transaction.ts';
import { notFound } from '../../platform/errors.ts';
import type {
  FailedSource,
  Hardware,
  Inventory,
  Network,
  InventoryReceipt,
  SoftwareEntry,
} from '../../protocol/index.ts';
import { isOtherMachine, raiseSerialConflicts, findDevice } from '../devices/index.ts';
import { type Installed, softwareDiff, withUnread } from './software-diff.ts';
import { applyDiff, expectMany, keepChanges, readSoftware } from './inventory.queries.ts';
import { type Page, toPage } from '../../platform/http/pagination.ts';
import { DeviceInventory, DeviceSoftware, SoftwareChange } from './inventory.model.ts';
import type {
  DeviceInventory as InventoryAnswer,
  InstalledSoftware,
  SoftwareChangeEntry,
  SoftwareChangeQuery,
  SoftwareQuery,
} from './inventory.schema.ts';

const WRITE_FACTS = {
  name: 'inventory-facts',
  text: `
    update devices set hardware = $3, network = $4, last_user = $5, updated_at = now()
    where org_id = $1 and id = $2`,
};

// A device clock that is ahead must not produce a time in the future.
const WRITE = {
  name: 'inventory-write',
  text: `
    insert into device_inventory as i (org_id, device_id, interfaces, collected_at, has_software, failed_sources)
    values ($1, $2, coalesce($3::jsonb, '[]'), least($4::timestamptz, now()), $5, $6)
    on conflict (org_id, device_id) do update set interfaces = coalesce($3::jsonb, i.interfaces),
      has_software = i.has_software or excluded.has_software, collected_at = excluded.collected_at,
      failed_sources = excluded.failed_sources, received_at = excluded.received_at
    returning collected_at as "collectedAt"`,
};

/** Replaces the stored inventory of a device by the reported one, writing only what differs. */
export async function takeInventory(
  ctx: AgentContext,
  { interfaces, software, lastUser, collectedAt, failed = [], ...reported }: Inventory,
  hub: DeviceHub,
): Promise<InventoryReceipt> {
  const { tx, agent } = ctx;
  const { orgId, deviceId } = agent;
  const [known] = await runPrepared<{
    hardware: Hardware;
    network: Network;
    hostname: string;
    lastUser: string | null;
    interfaces: object[] | null;
    hasSoftware: boolean;
  }>(tx, READ, [orgId, deviceId]);
  if (known === undefined) throw notFound('Device');
  const hardware = completed(reported.hardware, known.hardware, failed.length > 0);
  // An agent of an earlier release reports its hardware addresses when it connects, or not at all.
  const { macAddresses } = known.network;
  const network =
    reported.network === undefined || macAddresses === undefined
      ? reported.network
      : { macAddresses, ...reported.network };
  const differs = (reported: unknown, stored: unknown) =>
    reported !== undefined && !isDeepStrictEqual(reported, stored) ? 1 : 0;
  const facts = {
    hardware: differs(hardware, known.hardware),
    network: differs(network, known.network),
    interfaces: differs(interfaces, known.interfaces ?? []),
    lastUser: differs(lastUser, known.lastUser),
  };
  if (facts.hardware + facts.network + facts.lastUser > 0) {
    await runPrepared(tx, WRITE_FACTS, [
      orgId,
      deviceId,
      JSON.stringify(hardware ?? known.hardware),
      JSON.stringify(network ?? known.network),
      lastUser ?? known.lastUser,
    ]);
  }
  const [before, after] = [known.hardware.serialNumber, hardware?.serialNumber];
  if (before !== undefined && after !== undefined && isOtherMachine(before, after)) {
    await raiseSerialConflicts(tx, [{ orgId, deviceId, hostname: known.hostname, before, after }]);
  }
  const [written] = await runPrepared<{ collectedAt: Date }>(tx, WRITE, [
    orgId,
    deviceId,
    facts.interfaces === 0 ? null : JSON.stringify(interfaces),
    collectedAt,
    software !== undefined,
    JSON.stringify(failed),
  ]);
  const at = written?.collectedAt.toISOString() ?? collectedAt;
  const changed = {
    ...facts,
    ...(software === undefined
      ? NO_CHANGES
      : await takeSoftware(ctx, software, { at, isNews: known.hasSoftware, failed })),
  };
  // Filters that match by hardware or software are evaluated again.
  if (Object.values(changed).some((count) => count > 0)) {
    ctx.afterCommit(() => hub.devicesChanged([deviceId]));
  }
  return { ok: true, changed };
}

/** The reported fields, with the stored values of fields that were not reported. */
function completed<T extends object>(
  reported: T | undefined,
  stored: T,
  isCompleted: boolean,
): T | undefined {
  return reported === undefined || !isCompleted ? reported : { ...stored, ...reported };
}

const NO_CHANGES = { installed: 0, updated: 0, removed: 0, corrected: 0 };

async function takeSoftware(
  { tx, agent }: Pick<AgentContext, 'tx' | 'agent'>,
  software: readonly SoftwareEntry[],
  { at, isNews, failed }: { at: string; isNews: boolean; failed: readonly FailedSource[] },
): Promise<typeof NO_CHANGES> {
  await expectMany(tx);
  const known = await readSoftware(tx, agent);
  const unread = new Set(failed.map(({ source }) => source));
  const diff = softwareDiff(known, withUnread(known, software.map(installed), unread));
  await applyDiff(tx, agent, diff);
  // The first list of a device is no change: the software was there before.
  if (isNews) await keepChanges(tx, agent, at, diff.changes);
  const counts = { ...NO_CHANGES, corrected: diff.corrected.length };
  for (const { change } of diff.changes) counts[change] += 1;
  return counts;
}

const installed = ({ name, version = '', publisher, installedAt, source }: SoftwareEntry): Installed => ({
  name,
  version,
  publisher: publisher === undefined || publisher === '' ? null : publisher,
  installedAt: installedAt === undefined ? null : Date.parse(installedAt),
  source: source === undefined || source === '' ? null : source,
});

export async function readInventory(ctx: Context, deviceId: string): Promise<InventoryAnswer> {
  const { id, orgId, hardware, network, lastUser } = await findDevice(ctx, deviceId);
  const inventory = await DeviceInventory.query(ctx.tx).findById([orgId, id]);
  return {
    deviceId: id,
    orgId,
    hardware,
    network,
    interfaces: inventory?.interfaces ?? [],
    lastUser,
    softwareCount: await softwareOf(ctx, { id, orgId }).distinct('title_id').resultSize(),
    collectedAt: inventory?.collectedAt ?? null,
    receivedAt: inventory?.receivedAt ?? null,
    failedSources: inventory?.failedSources ?? [],
  };
}

const softwareOf = (ctx: Context, device: { id: string; orgId: string }) =>
  DeviceSoftware.query(ctx.tx)
    .where({ 'device_software.org_id': device.orgId, 'device_software.device_id': device.id })
    .whereRaw(inTenant(ctx.caller, 'device_software.org_id'));

export async function listInstalled(
  ctx: Context,
  deviceId: string,
  query: SoftwareQuery,
): Promise<Page<InstalledSoftware>> {
  const device = await findDevice(ctx, deviceId);
  await expectMany(ctx.tx);
  const software = softwareOf(ctx, device)
    .joinRelated('title')
    .select('title.name', 'device_software.version', 'publisher', 'installed_at', 'first_seen_at')
    .orderByRaw(`${nameOrder('title.name')}, device_software.version`)
    .page(query.page - 1, query.limit);
  if (query.search !== undefined) void software.whereILike('title.name', containing(query.search));
  return toPage(query, await software);
}

export async function listChanges(
  ctx: Context,
  deviceId: string,
  query: SoftwareChangeQuery,
): Promise<Page<SoftwareChangeEntry>> {
  const { id, orgId } = await findDevice(ctx, deviceId);
  const changes = SoftwareChange.query(ctx.tx)
    .where({ org_id: orgId, device_id: id })
    .whereRaw(inTenant(ctx.caller, 'org_id'))
    .orderBy('id', 'desc')
    .page(query.page - 1, query.limit);
  if (query.search !== undefined) void changes.whereILike('name', containing(query.search));
  if (query.change !== undefined) void changes.whereRaw('change = any(?::text[])', [query.change]);
  return toPage(query, await changes);
}

// Locks the device's row until the end: two inventories of one device that arrive at once are stored one after the other.
const READ = {
  name: 'inventory-read',
  text: `
    select d.hardware, d.network, d.hostname, d.last_user as "lastUser", i.interfaces, coalesce(i.has_software, false) as "hasSoftware"
    from devices d left join device_inventory i on i.org_id = d.org_id and i.device_id = d.id
    where d.org_id = $1 and d.id = $2 for no key update of d`,
};
