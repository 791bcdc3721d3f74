import { clock } from '../../clock.ts';
import type { DeviceHub } from '../../hub/index.ts';
import type { Context, DetachedAgentContext } from '../../platform/context.ts';
import { AppError } from '../../platform/errors.ts';
import { newId } from '../../platform/ids.ts';
import { UpgradableComponent, type WatchdogReport, shortened } from '../../protocol/index.ts';
import { asReported, type Device, lockDevice, readDevice, recordAgentState } from '../devices/index.ts';
import { devicesInMaintenance } from '../maintenance-windows/index.ts';
import { readOrganization } from '../organizations/index.ts';
import { type Assessment, assessUpgrades } from './assess-upgrades.ts';
import type { HeldAttempt } from './attempts.ts';
import { effectiveSettings, parseStored } from './resolve-target.ts';
import { knownReleases, type ReleaseTrust } from './known-releases.ts';
import { liveRollouts } from './rollout.queries.ts';
import { DeviceUpgrade } from './upgrade.model.ts';
import { heldAttempts, partnerSettings } from './upgrade.queries.ts';
import {
  PinnedComponent,
  type Upgrade,
  type UpgradeRequest,
  type UpgradeState,
  type EffectiveSettings,
} from './upgrade.schema.ts';

type Attempt = Pick<Upgrade['history'][number], 'targetVersion' | 'state' | 'code' | 'error'>;

const CAUSE_MAX = 500;

/**
 * The text about a component whose last attempt at its target has failed: the reason, and the time of the next attempt.
 * Without it, the answer for a device that has just failed would be that nothing stands in the way. Pure.
 * @param history  the attempts of the component, newest first
 */
function withLastFailure<T extends Assessment>(assessment: T, history: readonly Attempt[]): T {
  const { component, target, state, reason, nextAt } = assessment;
  if (state !== 'offered' && reason !== 'retry_later') return assessment;
  const last = history.find((one) => one.state !== 'offered');
  if (last === undefined || last.targetVersion !== target) return assessment;
  if (last.state !== 'failed' && last.state !== 'rolled_back') return assessment;
  const happened = last.state === 'failed' ? 'has failed' : 'was rolled back';
  const again = nextAt === undefined ? 'with the next heartbeat' : `at ${nextAt.toISOString()}`;
  const message = `The upgrade of the ${component} to ${target} ${happened}${causeOf(last)} It is tried again ${again}.`;
  return { ...assessment, message };
}

/** The first line of what the device reports; the history has the rest. */
function causeOf({ code, error }: Attempt): string {
  const [line = ''] = (error ?? '').split('\n');
  const text = shortened(line.trim().replace(/[.:;,]$/, ''), CAUSE_MAX);
  const named = code === null ? '' : ` (${code})`;
  return text === '' ? `${named}.` : `${named}: ${text}.`;
}

/** The upgrades of a device as people see and request them. */

const HISTORY = 20;

export interface UpgradeParts {
  hub: Pick<DeviceHub, 'live'>;
  releaseTrust: ReleaseTrust;
}

/** The target of each component that a device reports, the reason why it does not run it, and earlier upgrades. */
export async function listUpgrades(
  ctx: Context,
  deviceId: string,
  parts: UpgradeParts,
): Promise<{ data: Upgrade[] }> {
  const assess = await assessor(ctx, await readDevice(ctx, deviceId), parts);
  const held = await heldAttempts(ctx.tx, [deviceId]);
  // Read last, so that it has the end of an attempt whose end the state already shows.
  const histories = await historiesOf(ctx, deviceId);
  return { data: assess(held).map((one) => shown(one, histories)) };
}

/** Asks for the upgrade of a device now, whatever its policy or the waves of a rollout say. */
export async function requestUpgrade(
  ctx: Context,
  deviceId: string,
  { component }: UpgradeRequest,
  parts: UpgradeParts,
): Promise<{ device: Device; upgrade: Upgrade; isNew: boolean }> {
  await lockDevice(ctx, deviceId);
  const device = await readDevice(ctx, deviceId);
  const assess = await assessor(ctx, device, parts);
  const held = await heldAttempts(ctx.tx, [deviceId]);
  const asked = assess(held)
    .filter((one) => component === undefined || one.component === component)
    .map((one) => assessAsked(one, assess, held));
  const chosen = asked.find((one) => canBegin(one, { isNamed: component !== undefined }));
  if (chosen === undefined) throw refusal(asked[0], component);
  const isNew = !isRunning(chosen);
  if (isNew) await storeRequest(ctx, device, chosen);
  return { device, upgrade: shown(chosen, await historiesOf(ctx, deviceId)), isNew };
}

type Assess = (held: readonly HeldAttempt[]) => Assessment[];

/** Assesses the components of a device, with all that is read from the database read once. */
async function assessor(ctx: Context, stored: Device, { hub, releaseTrust }: UpgradeParts): Promise<Assess> {
  const device = asReported(hub, stored);
  const connected = hub.live(device.id)?.isConnected === true || device.presence.state === 'connected';
  const settings = await readAgentUpdates(ctx, device.orgId);
  const rollouts = await liveRollouts(ctx.tx);
  const releases = await knownReleases(ctx.tx, device, { pins: settings.pins, rollouts }, releaseTrust);
  const now = clock.date();
  const maintenance = (await devicesInMaintenance(ctx.tx, [device.id], 'upgrades')).get(device.id);
  const subject = {
    deviceId: device.id,
    agentVersion: device.agentVersion,
    watchdogVersion: device.watchdogVersion ?? undefined,
    device: { ...device, connected },
    pauses: maintenance === undefined ? [] : [{ ...maintenance, startsAt: now, endsAt: maintenance.until }],
  };
  return (held) => assessUpgrades(subject, { settings, releases, rollouts }, held, now);
}

/** As the component stands once a person has asked for it. */
function assessAsked(before: Assessment, assess: Assess, held: readonly HeldAttempt[]): Assessment {
  const { component, target } = before;
  if (target === null) return before;
  const now = clock.date();
  const request = {
    component,
    targetVersion: target,
    state: 'offered' as const,
    retryAt: null,
    startedAt: now,
    updatedAt: now,
  };
  return assess([...held, request]).find((one) => one.component === component) ?? before;
}

const RUNNING: readonly UpgradeState[] = ['downloading', 'verifying', 'installing', 'restarting', 'trial'];
const isRunning = ({ state }: Assessment) => RUNNING.includes(state);

/**
 * A deferred upgrade begins by itself when its time comes. A request without a component does not mean one that waits
 * for the other.
 */
function canBegin(one: Assessment, { isNamed }: { isNamed: boolean }): boolean {
  if (isRunning(one) || one.state === 'offered') return true;
  return one.state === 'deferred' && (isNamed || one.reason !== 'one_at_a_time');
}

function refusal(first: Assessment | undefined, component: PinnedComponent | undefined): AppError {
  if (first === undefined) {
    return new AppError('conflict', `The device reports no ${component ?? 'component'}.`);
  }
  const { state, reason, target, nextAt } = first;
  return new AppError('conflict', first.message, {
    details: { component: first.component, state, reason, target, ...shownTime(nextAt) },
  });
}

/** A newer request takes the place of one that the device has not begun with. */
async function storeRequest(ctx: Context, device: Device, { component, current, target }: Assessment) {
  if (target === null) return;
  const request = { targetVersion: target, fromVersion: current, byHand: true, startedAt: clock.date() };
  const replaced = await DeviceUpgrade.query(ctx.tx)
    .where({ org_id: device.orgId, device_id: device.id, component, state: 'offered' })
    .patch(request);
  if (replaced > 0) return;
  const id = newId();
  await DeviceUpgrade.query(ctx.tx).insert({
    id,
    attemptId: id,
    orgId: device.orgId,
    deviceId: device.id,
    component,
    state: 'offered',
    ...request,
  });
}

type Histories = ReadonlyMap<PinnedComponent, Upgrade['history']>;

async function historiesOf(ctx: Context, deviceId: string): Promise<Histories> {
  const histories = new Map<PinnedComponent, Upgrade['history']>();
  for (const component of PinnedComponent.options) {
    const rows = await DeviceUpgrade.query(ctx.tx)
      .where({ device_id: deviceId, component })
      .orderBy([
        { column: 'started_at', order: 'desc' },
        { column: 'id', order: 'desc' },
      ])
      .limit(HISTORY);
    histories.set(component, rows.map(attemptShown));
  }
  return histories;
}

const attemptShown = (row: DeviceUpgrade): Upgrade['history'][number] => ({
  id: row.id,
  fromVersion: row.fromVersion,
  targetVersion: row.targetVersion,
  state: row.state,
  code: row.code,
  error: row.error,
  rolloutId: row.rolloutId,
  byHand: row.byHand,
  startedAt: row.startedAt.toISOString(),
  updatedAt: row.updatedAt.toISOString(),
  finishedAt: row.finishedAt?.toISOString() ?? null,
});

function shown(assessment: Assessment, histories: Histories): Upgrade {
  const history = histories.get(assessment.component) ?? [];
  const { nextAt, ...one } = withLastFailure(assessment, history);
  return { ...one, ...shownTime(nextAt), history };
}

const shownTime = (nextAt: Date | undefined) =>
  nextAt === undefined ? {} : { nextAt: nextAt.toISOString() };

/** The settings that count for an organization that the caller can see. */
export async function readAgentUpdates(ctx: Context, orgId: string): Promise<EffectiveSettings> {
  const organization = await readOrganization(ctx, orgId);
  return effectiveSettings({
    organization: parseStored(organization.settings.agentUpdates),
    partner: parseStored(await partnerSettings(ctx, organization.partnerId)),
  });
}

/** Reports of the watchdog of a device over HTTP, also while its agent cannot report anything. */
export async function receiveWatchdogReport(
  ctx: DetachedAgentContext,
  { updates, agentState, message, watchdogVersion }: WatchdogReport,
  hub: DeviceHub,
): Promise<{ ok: true }> {
  const { deviceId } = ctx.agent;
  const isNews = await ctx.withTenant(({ tx }) =>
    recordAgentState(tx, deviceId, { state: agentState, message: message ?? null, watchdogVersion }),
  );
  if (isNews) hub.devicesChanged([deviceId]);
  for (const update of updates) {
    const component = UpgradableComponent.safeParse(update.component);
    // Skip unknown components, and store the rest.
    if (component.success) await hub.upgradeReported({ ...update, component: component.data, deviceId });
  }
  return { ok: true };
}
