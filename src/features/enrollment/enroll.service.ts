import { raw } from 'objection';
import { clock } from '../../clock.ts';
import type { DeviceHub } from '../../hub/index.ts';
import {
  type DeviceSummary,
  type EnrollRequest,
  type EnrollResponse,
  type ReleaseKey,
  HUB_PATH,
} from '../../protocol/index.ts';
import type { PublicContext, ClientInfo } from '../../platform/context.ts';
import type { AuditTrail } from '../../platform/http/audit.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { AppError } from '../../platform/errors.ts';
import { newId } from '../../platform/ids.ts';
import { isWellFormed, tokenHash } from '../../platform/secrets/tokens.ts';
import {
  assertDeviceQuota,
  DeviceModel,
  type DeviceRow,
  isOtherMachine,
  issueAgentToken,
  noteRenames,
  raiseEnrollmentConflict,
  raiseSerialConflicts,
  selectDevices,
  type Side,
  toSummary,
} from '../devices/index.ts';
import { firstSiteOf } from '../sites/index.ts';
import { findHeld, type Held, type KnownDevice, lockCandidates } from './candidates.queries.ts';
import { EnrollmentKey } from './enrollment-key.model.ts';
import { type Place, placeOf, tellingMachineId } from './place.ts';
import type { RateLimits } from '../../platform/cluster/rate-limits.ts';
import { addressLimiter, countedAddress } from '../../platform/http/client-address.ts';

type TakenKey = Pick<EnrollmentKey, 'id' | 'orgId' | 'siteId' | 'partnerId'>;

const IS_EXPIRED = raw('coalesce(enrollment_keys.expires_at <= now(), false) as is_expired');
const IS_TENANT_ACTIVE = raw(`(
  organization.deleted_at is null and organization.status in ('active', 'trial')
  and "organization:partner".deleted_at is null and "organization:partner".status = 'active'
) as is_tenant_active`);

const KEY_FAULT = {
  unknown: 'The enrollment key is not known.',
  revoked: 'The enrollment key has been revoked.',
  expired: 'The enrollment key has expired.',
  exhausted: 'The enrollment key has reached its usage limit.',
};

export interface EnrollmentSettings {
  hub: DeviceHub;
  audit: AuditTrail;
  /** Where agents reach this server, without a slash at the end. */
  baseUrl: () => string;
  heartbeatSeconds: number;
  /** The keys that sign releases, which the new device trusts. */
  releaseKeys: (tx: Tx) => Promise<ReleaseKey[]>;
  forgetTokens: (deviceIds: readonly string[]) => void;
  enrollLimits: EnrollLimits;
}

/**
 * Enrolls a device with an enrollment key, and returns its token. The use of the key and the device are committed together.
 * @param bearer  the token that the machine has as a device already, if it sent one
 */
export async function enroll(
  ctx: PublicContext,
  request: EnrollRequest,
  bearer: string | undefined,
  settings: EnrollmentSettings,
): Promise<EnrollResponse> {
  const { key, device, token, isNew, releaseKeys } = await settings.enrollLimits.limited(ctx.client, () =>
    tradeKey(ctx, request, bearer, settings),
  );

  settings.audit.committed();
  settings.forgetTokens([device.id]);
  if (isNew) settings.hub.deviceEntered(device, key.partnerId);
  // It may have moved to another site, or returned to service.
  else settings.hub.devicesMoved([device.id]);
  ctx.log.info({ deviceId: device.id, orgId: device.orgId }, 'device.enrolled');
  return {
    agentId: device.id,
    deviceId: device.id,
    orgId: device.orgId,
    siteId: device.siteId,
    token,
    status: device.status === 'pending' ? 'pending' : 'enrolled',
    config: {
      heartbeatSeconds: settings.heartbeatSeconds,
      hubUrl: `${settings.baseUrl()}${HUB_PATH}`,
      releaseKeys,
    },
  };
}

/** Counts the use of the key, stores the device and issues its token, in one transaction. */
async function tradeKey(
  ctx: PublicContext,
  request: EnrollRequest,
  bearer: string | undefined,
  { hub, audit, releaseKeys }: EnrollmentSettings,
) {
  const { enrollmentKey } = request;
  if (!isWellFormed('enrollmentKey', enrollmentKey)) {
    throw new AppError('unauthenticated', KEY_FAULT.unknown);
  }
  const machineId = tellingMachineId(request.machineId);
  const held: Held =
    machineId === undefined ? new Map() : await findHeld(ctx, { enrollmentKey, machineId }, hub);
  return ctx.withSystem('enroll a device, whose tenant only the key knows', async (tx) => {
    // Before the enrollment key is locked, for which other machines wait.
    const trusted = await releaseKeys(tx);
    const key = await takeKey(tx, enrollmentKey);
    const { orgId } = key;
    const candidates = await lockCandidates(tx, { orgId, machineId, bearer, held });
    const place = placeOf(candidates, request.hardware?.serialNumber);
    const known = place.kind === 'known' ? place.device.device : undefined;
    if (known === undefined || known.condition === 'decommissioned') await assertDeviceQuota(tx, orgId);
    const deviceId = known?.id ?? newId();
    await saveDevice(tx, { id: deviceId, machineId, place }, key, request);
    await EnrollmentKey.query(tx).findById(key.id).increment('usage_count', 1);
    const token = await issueAgentToken(tx, { id: deviceId, orgId });
    const { partnerId } = key;
    await audit.record(tx, {
      action: known === undefined ? 'device.create' : 'device.update',
      resourceType: 'device',
      resourceId: deviceId,
      resourceName: request.hostname,
      details: { enrollmentKeyId: key.id, ...placeDetails(place) },
      actor: { kind: 'agent', deviceId, orgId, partnerId },
      state: ctx,
    });
    if (known !== undefined) await noteOtherMachine(ctx, tx, { known, partnerId, request }, audit);
    const waits = conflictOf(place, candidates);
    if (waits !== undefined) {
      await raiseEnrollmentConflict(tx, {
        orgId,
        newcomer: sideOf(deviceId, request, ctx.client.ip),
        known: sideOf(waits.id, waits.device, waits.holder?.ip),
      });
    }
    const device = await readSummary(tx, deviceId);
    return { key, device, token, isNew: known === undefined, releaseKeys: trusted };
  });
}

const placeDetails = (place: Place<KnownDevice>): object => {
  if (place.kind === 'known') return { enrolledAgain: true };
  return place.kind === 'pending' ? { status: 'pending', conflictsWith: place.conflictsWith.id } : {};
};

/** The device whose identity a machine claims that waits, also one that waited before. */
function conflictOf(place: Place<KnownDevice>, candidates: readonly KnownDevice[]): KnownDevice | undefined {
  if (place.kind === 'pending') return place.conflictsWith;
  if (place.kind === 'new' || !place.device.isPending) return undefined;
  return candidates.find(({ ownsId }) => ownsId);
}

const sideOf = (
  deviceId: string,
  { hostname, hardware, network }: Pick<EnrollRequest, 'hostname' | 'hardware' | 'network'>,
  ip: string | undefined,
): Side => ({
  deviceId,
  hostname,
  serialNumber: hardware?.serialNumber,
  macAddresses: network?.macAddresses ?? (network?.macAddress === undefined ? [] : [network.macAddress]),
  ip,
});

/** A device that enrolls again may have another name, or be another machine with the same machine id. */
async function noteOtherMachine(
  ctx: PublicContext,
  tx: Tx,
  { known, partnerId, request }: { known: DeviceModel; partnerId: string; request: EnrollRequest },
  audit: AuditTrail,
): Promise<void> {
  const { id: deviceId, orgId } = known;
  const { hostname } = request;
  if (known.hostname !== hostname) {
    const { ip } = ctx.client;
    const renamed = { deviceId, orgId, partnerId, before: known.hostname, after: hostname, ip };
    await noteRenames(tx, [renamed], { audit, log: ctx.log });
  }
  const [before, after] = [known.hardware.serialNumber, request.hardware?.serialNumber];
  if (before !== undefined && after !== undefined && isOtherMachine(before, after)) {
    await raiseSerialConflicts(tx, [{ orgId, deviceId, hostname, before, after }]);
  }
}

/** Locks the key, so that two devices cannot both take its last use. Throws if it cannot be used. */
async function takeKey(tx: Tx, key: string): Promise<TakenKey> {
  // One statement: machines enroll by the hundreds, each in a transaction that holds the row of the key.
  const found = await EnrollmentKey.query(tx)
    .joinRelated('organization.partner')
    .findOne({ key_hash: tokenHash(key) })
    .select('enrollment_keys.*', 'organization.partner_id', IS_EXPIRED, IS_TENANT_ACTIVE)
    // Only the key is locked; the types of Objection do not let a join name what to lock.
    .onBuildKnex((query) => void query.forUpdate('enrollment_keys'));
  const fault = faultOf(found);
  if (found === undefined || fault !== undefined) {
    throw new AppError('unauthenticated', KEY_FAULT[fault ?? 'unknown']);
  }
  if (!found.isTenantActive) {
    throw new AppError('tenant_inactive', 'The organization of this enrollment key is not active.');
  }
  return found;
}

function faultOf(key: EnrollmentKey | undefined): keyof typeof KEY_FAULT | undefined {
  if (key === undefined) return 'unknown';
  if (key.revokedAt !== null) return 'revoked';
  if (key.isExpired) return 'expired';
  return key.maxUsage !== null && key.usageCount >= key.maxUsage ? 'exhausted' : undefined;
}

async function saveDevice(
  tx: Tx,
  { id, machineId, place }: { id: string; machineId: string | undefined; place: Place<KnownDevice> },
  key: TakenKey,
  request: EnrollRequest,
): Promise<void> {
  const facts = {
    hostname: request.hostname,
    osType: request.osType,
    osVersion: request.osVersion,
    osBuild: request.osBuild ?? null,
    architecture: request.architecture,
    agentVersion: request.agentVersion,
    hardware: request.hardware ?? {},
    network: request.network ?? {},
    capabilities: request.capabilities ?? [],
    enrolledAt: clock.date(),
  };
  if (place.kind !== 'known') {
    const own =
      place.kind === 'new' ? { machineId: machineId ?? null } : { claimedMachineId: machineId ?? null };
    await DeviceModel.query(tx).insert({
      ...facts,
      ...own,
      ...(place.kind === 'pending' ? { condition: 'pending', capabilities: [] } : {}),
      id,
      orgId: key.orgId,
      siteId: key.siteId ?? (await firstSiteOf(tx, key.orgId)),
    });
    return;
  }
  // The decisions about a known device stay, except that a decommissioned one returns to service.
  await DeviceModel.query(tx)
    .findById(id)
    .patch({
      ...facts,
      condition: raw(`case when condition = 'decommissioned' then 'normal' else condition end`),
      decommissionedFrom: null,
      ...(key.siteId === null ? {} : { siteId: key.siteId }),
    });
}

async function readSummary(tx: Tx, id: string): Promise<DeviceSummary> {
  const query = tx('devices as d').leftJoin('device_presence as p', 'p.device_id', 'd.id').where('d.id', id);
  const [row] = (await selectDevices(query)) as [DeviceRow];
  return toSummary(row);
}

/** Bad keys from one address. */
const FAILURES = { points: 30, seconds: 300 };
/** All tries from one address: a school behind one address can bring in hundreds of machines in an afternoon. */
const TRIES = { points: 1200, seconds: 3600 };

type EnrollLimits = ReturnType<typeof enrollLimits>;

export function enrollLimits(limits: RateLimits) {
  const failures = addressLimiter(limits, 'enroll-failure', FAILURES);
  const tries = addressLimiter(limits, 'enroll-try', TRIES);

  return {
    /**
     * Lets an address try to enroll, unless it has tried too often. Throws `rate_limited`. A failure is counted when it
     * is one, not before as with passwords: many machines that enroll at once would be taken for many bad keys, and a
     * key has too many characters for a few more guesses in parallel to matter.
     */
    async limited<T>(client: ClientInfo, enroll: () => Promise<T>): Promise<T> {
      const ip = countedAddress(client);
      // All clients behind a proxy that is not configured: a key cannot be guessed, so there is nothing to protect.
      if (ip === undefined) return enroll();
      // Not this machine itself, such as a simulated fleet.
      if (!isLoopback(ip)) await tries.take(ip);
      // Taking a point reports the time at which there is one again.
      if (await failures.isSpent(ip)) await failures.take(ip);
      try {
        return await enroll();
      } catch (error) {
        if (error instanceof AppError && error.code === 'unauthenticated') await failures.take(ip);
        throw error;
      }
    },
  };
}

const isLoopback = (ip: string) => ip === '::1' || ip.startsWith('127.');
