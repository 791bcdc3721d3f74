import { clock } from '../../../clock.ts';
import type { DeviceHub } from '../../../hub/index.ts';
import type { Context } from '../../../platform/context.ts';
import { AppError } from '../../../platform/errors.ts';
import { newId } from '../../../platform/ids.ts';
import { asReported, type Device, lockDevice, readDevice } from '../../devices/index.ts';
import { liveRollouts } from '../rollouts/live-rollouts.ts';
import { readAgentUpdates } from '../targets/agent-updates.service.ts';
import { knownReleases } from '../targets/known-releases.ts';
import type { ReleaseTrust } from '../targets/release-trust.ts';
import { PinnedComponent } from '../targets/target.schema.ts';
import { type Assessment, assessUpgrades } from './assess-upgrades.ts';
import { heldAttempts } from './held-attempt.queries.ts';
import { DeviceUpgrade } from './device-upgrade.model.ts';
import type { HeldAttempt } from './held-attempt.ts';
import { withLastFailure } from './last-failure.ts';
import type { Upgrade, UpgradeRequest, UpgradeState } from './upgrade.schema.ts';

/** What people see and ask of the upgrades of a device. */

const HISTORY = 20;

export interface UpgradeParts {
  hub: Pick<DeviceHub, 'live'>;
  releaseTrust: ReleaseTrust;
}

/** What the components that a device reports should run, why they do not, and what became of earlier upgrades. */
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
  const subject = {
    deviceId: device.id,
    agentVersion: device.agentVersion,
    watchdogVersion: device.watchdogVersion ?? undefined,
    device: { ...device, connected },
  };
  const now = clock.date();
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

/** What is deferred begins by itself when its time comes. Who names no component does not mean one that waits for the other. */
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
      .orderByRaw('started_at desc, id desc')
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
