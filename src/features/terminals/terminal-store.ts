import { randomBytes, timingSafeEqual } from 'node:crypto';
import type { TerminalRecordingPart, TerminalStore } from '../../hub/ports.ts';
import { type Caller, holds } from '../../platform/context.ts';
import type { Db } from '../../platform/db/pool.ts';
import {
  lockByName,
  type Tx,
  withSystem,
  withSystemStatement,
  withTenant,
} from '../../platform/db/transaction.ts';
import { AppError, notFound } from '../../platform/errors.ts';
import type { AuditTrail } from '../../platform/http/audit.ts';
import { newId } from '../../platform/ids.ts';
import type { Logger } from '../../platform/logger.ts';
import { type Encryptor, sealContext } from '../../platform/secrets/sealed.ts';
import { tokenHash } from '../../platform/secrets/tokens.ts';
import { shortened, type TerminalEnd, TERMINALS_PER_DEVICE } from '../../protocol/index.ts';
import { assertFreshSecondFactor } from '../auth/index.ts';
import { AWAITS_APPROVAL, type DeviceModel, findDevice } from '../devices/index.ts';
import { assertManageable } from '../organizations/index.ts';
import { castEvents, newRecordingKey, sealPart } from './recording.ts';
import { SEALED_TERMINAL_KEY, TerminalModel, TerminalSetting } from './terminal.model.ts';
import { endEntry, SEEN_MINUTES } from './terminal.work.ts';
import { endTerminal, noteSeen, openTerminals, STORE_PART, viewedTerminals } from './terminal.queries.ts';

const TERMINALS_PER_PERSON = 8;

/** The largest recording: its output in characters, and what it takes in the database. */
const RECORDED_MAX = 200_000_000;
const STORED_MAX = 64_000_000;

/** More than one server has open at once. A key that is missing here is read again. */
const KEYS_MAX = 2000;

interface Parts {
  db: Db;
  encryptor: Encryptor;
  audit: AuditTrail;
  log: Logger;
}

interface Recording {
  key: string;
  openedAt: number;
}

/** Who may have terminals, which there are, and their recordings. */
export function createTerminalStore({ db, encryptor, audit, log }: Parts): TerminalStore {
  const recordings = new Map<string, Recording>();

  const remember = (terminalId: string, recording: Recording) => {
    recordings.set(terminalId, recording);
    if (recordings.size <= KEYS_MAX) return;
    const [oldest] = recordings.keys();
    if (oldest !== undefined) recordings.delete(oldest);
  };

  const recordingOf = async (terminalId: string): Promise<Recording> => {
    const known = recordings.get(terminalId);
    if (known !== undefined) return known;
    const row = await withSystem(db, 'read the key of a recording', (tx) =>
      TerminalModel.query(tx).findById(terminalId),
    );
    if (row === undefined) throw notFound('Terminal');
    const { text } = encryptor.open(row.sealedKey, keyContext(terminalId));
    const recording = { key: text, openedAt: row.openedAt.getTime() };
    remember(terminalId, recording);
    return recording;
  };

  /** As with a request that is refused. The refusal stands whether or not the entry is written. */
  const noteDenial = async (
    {
      caller,
      client,
      deviceId,
    }: Pick<Parameters<TerminalStore['open']>[0], 'caller' | 'client' | 'deviceId'>,
    error: AppError,
  ) => {
    try {
      await withTenant(db, caller, (tx) =>
        audit.record(tx, {
          action: 'device.terminal.open',
          resourceType: 'device',
          resourceId: deviceId,
          details: { code: error.wireCode },
          actor: caller,
          state: { client, log },
          result: 'denied',
          errorMessage: error.message,
        }),
      );
      audit.committed();
    } catch (fault) {
      log.error({ err: fault, deviceId }, 'terminal.denial_not_written');
    }
  };

  return {
    async open({ caller, client, deviceId, size }) {
      const resumeToken = randomBytes(32).toString('base64url');
      const key = newRecordingKey();
      const id = newId();
      const opening = withTenant(db, caller, async (tx) => {
        assertMayHaveTerminals(caller);
        const device = await assertDevice(tx, caller, deviceId);
        await assertFreshSecondFactor({ tx, caller }, 'A terminal');
        await assertRoom(tx, caller, deviceId);
        const terminal = await TerminalModel.query(tx).insertAndFetch({
          id,
          orgId: device.orgId,
          deviceId,
          openedIn: device.orgId,
          userId: caller.userId,
          userName: shortened(caller.name, 255),
          userEmail: shortened(caller.email, 255),
          resumeTokenHash: tokenHash(resumeToken),
          ...size,
          sealedKey: encryptor.seal(key, keyContext(id)),
        });
        await audit.record(tx, {
          action: 'device.terminal.open',
          resourceType: 'device',
          orgId: device.orgId,
          resourceId: deviceId,
          resourceName: device.hostname,
          details: { terminalId: id },
          actor: caller,
          state: { client, log },
        });
        return terminal;
      });
      const opened = await opening.catch(async (error: unknown) => {
        if (error instanceof AppError && error.status === 403) {
          await noteDenial({ caller, client, deviceId }, error);
        }
        throw error;
      });
      audit.committed();
      remember(id, { key, openedAt: opened.openedAt.getTime() });
      return { terminalId: id, resumeToken, viewer: viewerOf(caller), recordedTo: 0 };
    },

    async resume({ caller, deviceId, terminalId, resumeToken }) {
      assertMayHaveTerminals(caller);
      const next = randomBytes(32).toString('base64url');
      const recordedTo = await withTenant(db, caller, async (tx) => {
        await assertDevice(tx, caller, deviceId);
        const terminal = await TerminalModel.query(tx).findById(terminalId).forUpdate();
        // Only the person who has opened it may continue it.
        if (
          terminal === undefined ||
          terminal.deviceId !== deviceId ||
          terminal.userId !== caller.userId ||
          terminal.endedAt !== null ||
          terminal.orgId !== terminal.openedIn
        ) {
          throw notFound('Terminal');
        }
        if (!isSame(terminal.resumeTokenHash, resumeToken)) {
          await assertFreshSecondFactor({ tx, caller }, 'A terminal');
        }
        await terminal.$query(tx).patch({ resumeTokenHash: tokenHash(next) });
        await noteSeen(tx, [terminalId]);
        return Number(terminal.recordedTo);
      });
      return { terminalId, resumeToken: next, viewer: viewerOf(caller), recordedTo };
    },

    async keep(caller, terminals) {
      const ids = terminals.map(({ terminalId }) => terminalId);
      return withTenant(db, caller, async (tx) => {
        const rows = new Map((await viewedTerminals(tx, caller, ids)).map((row) => [row.id, row]));
        const ends = new Map<string, TerminalEnd>();
        for (const id of ids) {
          const row = rows.get(id);
          if (row === undefined || !row.isManageable || !holds(caller.permissions, PERMISSION)) {
            ends.set(id, 'access_ended');
          } else if (row.hasMoved) ends.set(id, 'device_moved');
          else if (!row.isEnabled) ends.set(id, 'switched_off');
          else if (row.isTooLong) ends.set(id, 'too_long');
          else if (row.isEnded || !row.isInService) ends.set(id, 'device_lost');
        }
        await noteSeen(
          tx,
          ids.filter((id) => !ends.has(id)),
        );
        return ends;
      });
    },

    async record(terminalId, part: TerminalRecordingPart) {
      const { key, openedAt } = await recordingOf(terminalId);
      const content = sealPart(key, terminalId, castEvents(part, openedAt));
      const values = [terminalId, part.recordedTo, content, STORED_MAX, RECORDED_MAX];
      const rows = await withSystemStatement<{ seq: number }>(
        db,
        'store what a terminal has shown',
        { ...STORE_PART, values },
        () => true,
      );
      return rows?.length === 1 ? 'stored' : 'full';
    },

    async ended(terminalId, end) {
      recordings.delete(terminalId);
      await withSystem(db, 'record the end of a terminal', async (tx) => {
        const ended = await endTerminal(tx, terminalId, end);
        await audit.recordAll(
          tx,
          ended.map((row) => endEntry(row, log)),
        );
      });
      audit.committed();
    },
  };
}

const PERMISSION = 'devices:terminal';

const keyContext = (id: string) => sealContext(SEALED_TERMINAL_KEY.table, SEALED_TERMINAL_KEY.column, id);

const viewerOf = ({ name, email }: Caller) => shortened(`${name} (${email})`, 300);

function isSame(hash: string, token: string | undefined): boolean {
  const given = tokenHash(token ?? '');
  return given.length === hash.length && timingSafeEqual(Buffer.from(given), Buffer.from(hash));
}

/** API keys have no second factor, and no person who sits in front of them. */
function assertMayHaveTerminals(caller: Caller): void {
  if (caller.kind !== 'user') {
    throw new AppError('forbidden', 'An API key cannot open terminals. Sign in as a person.');
  }
  if (!holds(caller.permissions, PERMISSION)) {
    throw new AppError('forbidden', `This needs the permission ${PERMISSION}.`);
  }
}

async function assertDevice(tx: Tx, caller: Caller, deviceId: string): Promise<DeviceModel> {
  const ctx = { tx, caller };
  const device = await findDevice(ctx, deviceId);
  await assertManageable(ctx, device.orgId);
  if (device.condition === 'pending') throw new AppError('device_pending', AWAITS_APPROVAL);
  const setting = await TerminalSetting.query(tx).findById(device.orgId);
  if (setting?.enabled !== true) {
    throw new AppError('forbidden', 'This organization does not allow terminals.');
  }
  return device;
}

/** The locks are taken in the same order by all, and make the limits hold however many are opened at once. */
async function assertRoom(tx: Tx, { userId }: Caller, deviceId: string): Promise<void> {
  await lockByName(tx, `terminals of person ${userId}`);
  await lockByName(tx, `terminals of device ${deviceId}`);
  const { ofPerson, ofDevice } = await openTerminals(tx, { userId, deviceId, seenMinutes: SEEN_MINUTES });
  if (ofPerson >= TERMINALS_PER_PERSON) {
    throw new AppError('rate_limited', `A person may have ${TERMINALS_PER_PERSON} terminals at once.`);
  }
  if (ofDevice >= TERMINALS_PER_DEVICE) {
    throw new AppError('rate_limited', `A device may have ${TERMINALS_PER_DEVICE} terminals at once.`);
  }
}
