import { createHash, randomBytes } from 'node:crypto';
import { buffer } from 'node:stream/consumers';
import { clock } from '../../clock.ts';
import { EngineError } from '../../engine/index.ts';
import type { DeviceHub } from '../../hub/index.ts';
import type { Context, DetachedContext } from '../../platform/context.ts';
import { AppError, invalid, notFound } from '../../platform/errors.ts';
import { newId } from '../../platform/ids.ts';
import { SealBrokenError, type Encryptor } from '../../platform/secrets/sealed.ts';
import { COMMANDS, SECRETS_CAPABILITY } from '../../protocol/index.ts';
import type { ObjectStorage } from '../backup-store/index.ts';
import {
  addServerCommand,
  announceCommands,
  cancelServerCommand,
  type EndedCommand,
  findEndOfCommand,
} from '../commands/index.ts';
import { commandTargets, supportsCommand } from '../devices/index.ts';
import { assertManageable } from '../organizations/index.ts';
import type { BackupConfig } from './config.model.ts';
import type { ConfigTest, ConfigTestResult } from './config.schema.ts';
import { readConfig, secretOf } from './config.service.ts';
import { EncryptionKeyVersion, passwordOf } from './key.model.ts';
import { destinationOnDevice, type ServerEngine } from './repository-access.ts';
import { type BackupSources, faultsOfExcludes, type FileSources } from './source.schema.ts';

type Check = ConfigTestResult['checks'][number];

/** The faults of the sources of a configuration that can be found without a device. */
export function sourceChecks(sources: BackupSources): Check[] {
  if (sources.kind !== 'files') return [];
  const faults = [...faultsOf(sources)];
  if (faults.length > 0) return faults.map((fault) => ({ name: 'sources', ok: false, ...fault }));
  const message = leftOutSentence(sources.paths.linux ?? []);
  return [{ name: 'sources', ok: true, ...(message === undefined ? {} : { message }) }];
}

const MADE_UP = /^\/(proc|sys)(\/|$)|^\/(dev|run)\/?$/;
const IN_MEMORY = /^\/(dev|run)\/./;
/** Taken alone; a pattern that takes something in again may stand behind it. */
const EVERYTHING = /^(\/?\*{1,2}|\*\*\/\*{1,2}|\/)$/;

function* faultsOf({ paths, excludes = [] }: FileSources): Generator<{ code: string; message: string }> {
  for (const path of paths.linux ?? []) {
    if (!MADE_UP.test(path)) continue;
    const message = `${path} lies in a virtual file system, which holds no files. It is not backed up.`;
    yield { code: 'SOURCE_VIRTUAL', message };
  }
  for (const { at, message } of faultsOfExcludes({ paths, excludes })) {
    const which = at === undefined ? 'The excludes' : `The exclude ${excludes[at] ?? ''}`;
    yield { code: 'EXCLUDE_INVALID', message: `${which} ${message}.` };
  }
  const all = excludes.find((pattern) => EVERYTHING.test(pattern));
  if (all !== undefined && !excludes.some((pattern) => pattern.startsWith('!'))) {
    yield { code: 'EVERYTHING_EXCLUDED', message: `The exclude ${all} leaves nothing to back up.` };
  }
}

function leftOutSentence(paths: readonly string[]): string | undefined {
  if (paths.length === 0) return undefined;
  const inMemory = paths.find((path) => IN_MEMORY.test(path));
  if (inMemory !== undefined) {
    return `${inMemory} is backed up only if a disk is mounted on the way to it.`;
  }
  return 'On Linux, /proc, /sys, /dev, /run and other virtual file systems below the sources are left out, which the job says.';
}

/** Whether backups with a configuration would work. */

export interface TestParts {
  hub: DeviceHub;
  secrets: Encryptor;
  backupEngine: ServerEngine;
  backupStore: { storage: ObjectStorage };
}

type Checks = ConfigTestResult['checks'];

export async function testConfig(
  ctx: DetachedContext,
  id: string,
  { deviceId }: ConfigTest,
  parts: TestParts,
): Promise<ConfigTestResult & Pick<BackupConfig, 'orgId' | 'name'>> {
  const { config, key } = await ctx.withTenant(async (inside) => {
    const found = await readConfig(inside, id);
    await assertManageable(inside, found.orgId);
    return { config: found, key: await keyCheck(inside, found, parts.secrets) };
  });
  const checks = [
    key,
    ...sourceChecks(config.sources),
    ...(await destinationChecks(ctx, config, deviceId, parts)),
  ];
  const status = checks.every(({ ok }) => ok) ? 'success' : 'failed';
  const { orgId, name } = config;
  return { id, orgId, name, status, checks, checkedAt: clock.date().toISOString() };
}

async function keyCheck(
  { tx }: Context,
  { encryptionKeyId }: BackupConfig,
  encryptor: Encryptor,
): Promise<Checks[number]> {
  const version = await EncryptionKeyVersion.query(tx)
    .where('key_id', encryptionKeyId)
    .orderBy('version', 'desc')
    .first();
  if (version !== undefined && canOpen(version, encryptor)) return { name: 'encryption_key', ok: true };
  const message = 'The encryption key cannot be opened with the secrets that this server has.';
  return { name: 'encryption_key', ok: false, code: 'KEY_UNREADABLE', message };
}

/** False if it was sealed with a secret of the server that is no longer configured. */
function canOpen(version: EncryptionKeyVersion, encryptor: Encryptor): boolean {
  try {
    return passwordOf(encryptor, version) !== '';
  } catch (error) {
    if (error instanceof SealBrokenError) return false;
    throw error;
  }
}

async function destinationChecks(
  ctx: DetachedContext,
  config: BackupConfig,
  deviceId: string | undefined,
  parts: TestParts,
): Promise<Checks> {
  if (config.provider !== 'server') {
    if (deviceId === undefined) {
      throw invalid('body.deviceId', 'is required: only a device reaches the destination of this provider');
    }
    return onDevice(ctx, config, deviceId, parts);
  }
  return [await engineCheck(parts.backupEngine), await storageCheck(ctx, parts)];
}

async function engineCheck(engine: ServerEngine): Promise<Checks[number]> {
  try {
    await engine.open();
    return { name: 'engine', ok: true };
  } catch (error) {
    if (!(error instanceof EngineError)) throw error;
    return { name: 'engine', ok: false, code: error.code, message: `On the server: ${error.message}` };
  }
}

/** No repository has this id. */
const PROBE_REPOSITORY = '00000000-0000-0000-0000-000000000000';
const PROBE_BYTES = 1024;
const ROOM_BYTES = 2 ** 20;

/** Writes an object, reads it and removes it again. */
async function storageCheck(
  { log }: DetachedContext,
  { backupStore: { storage } }: TestParts,
): Promise<Checks[number]> {
  const content = randomBytes(PROBE_BYTES);
  const name = createHash('sha256').update(content).digest('hex');
  const probe = { type: 'locks', name } as const;
  try {
    await storage.assertRoom(ROOM_BYTES);
    await storage.write(PROBE_REPOSITORY, probe, once(content), { size: PROBE_BYTES, sha256: name });
    const stored = await storage.read(PROBE_REPOSITORY, { ...probe, trashedAt: null }, undefined);
    const isSame = stored !== undefined && content.equals(await buffer(stored));
    await storage.remove(PROBE_REPOSITORY, { ...probe, trashedAt: null });
    if (isSame) return { name: 'storage', ok: true };
  } catch (error) {
    log.warn({ err: error }, 'backup.storage_check_failed');
    if (error instanceof AppError && error.code === 'storage_full') {
      const full = 'The backup store of this server has no space left.';
      return { name: 'storage', ok: false, code: 'DESTINATION_FULL', message: full };
    }
  }
  const message = 'The backup store of this server cannot be written and read.';
  return { name: 'storage', ok: false, code: 'DESTINATION_UNREACHABLE', message };
}

// oxlint-disable-next-line typescript/require-await -- the storage takes pieces as they arrive
async function* once(piece: Buffer): AsyncGenerator<Buffer> {
  yield piece;
}

const TEST = 'backup.test-destination';
const DEVICE_SECONDS = 20;
const WAIT_MS = 25_000;
const LOOK_MS = 250;

/** The device says what it reaches. */
async function onDevice(
  ctx: DetachedContext,
  config: BackupConfig,
  deviceId: string,
  { hub, secrets }: TestParts,
): Promise<Checks> {
  const command = await ctx.withTenant(async (inside) => {
    const [device] = await commandTargets(inside, [deviceId]);
    if (device?.orgId !== config.orgId) throw notFound('Device');
    if (!supportsCommand(hub, device, TEST) || !supportsCommand(hub, device, SECRETS_CAPABILITY)) {
      throw new AppError(
        'capability_missing',
        'The agent on this device cannot test destinations. Update it.',
      );
    }
    const ref = newId();
    const secret = secretOf(secrets, config);
    const added = await addServerCommand(inside.tx, device, {
      type: TEST,
      payload: {
        destination: destinationOnDevice(config, 'muster-test', ref),
        timeoutSeconds: DEVICE_SECONDS,
      },
      ttlSeconds: DEVICE_SECONDS,
      timeoutSeconds: DEVICE_SECONDS,
      secrets: { values: secret === undefined ? {} : { [ref]: secret }, encryptor: secrets },
      createdBy: ctx.caller.userId,
    });
    inside.afterCommit(() => announceCommands(hub, [added]));
    return added;
  });
  const end = await endOf(ctx, command.id);
  if (end === undefined) {
    await ctx.withTenant(async (inside) => {
      const { announce } = await cancelServerCommand(inside.tx, command.id, hub);
      inside.afterCommit(announce);
    });
    throw new AppError('device_timeout', 'The device did not answer in time.');
  }
  const output = COMMANDS[TEST].output.safeParse(end.output);
  if (end.status === 'succeeded' && output.success) return output.data.checks;
  const { code, message } = end.error ?? { code: 'UNKNOWN', message: 'The device could not run the test.' };
  return [{ name: 'device', ok: false, code, message }];
}

async function endOf(ctx: DetachedContext, commandId: string): Promise<EndedCommand | undefined> {
  for (const until = clock.monotonic() + WAIT_MS; clock.monotonic() < until; await clock.sleep(LOOK_MS)) {
    const end = await ctx.withTenant(({ tx }) => findEndOfCommand(tx, commandId));
    if (end !== undefined) return end;
  }
  return undefined;
}
