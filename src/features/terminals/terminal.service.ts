import { raw } from 'objection';
import type { Context } from '../../platform/context.ts';
import { notFound } from '../../platform/errors.ts';
import { Download, type Within } from '../../platform/http/file-answer.ts';
import { toPage, type PageQuery } from '../../platform/http/pagination.ts';
import { type Encryptor, sealContext } from '../../platform/secrets/sealed.ts';
import { findDevice } from '../devices/index.ts';
import { readOrganization } from '../organizations/index.ts';
import { castHeader, openPart } from './recording.ts';
import { SEALED_TERMINAL_KEY, type TerminalModel, TerminalPart, TerminalSetting } from './terminal.model.ts';
import { recordingsOf } from './terminal.queries.ts';
import type { TerminalRecording, TerminalSettingsChange } from './terminal.schema.ts';

export async function readTerminalSettings(ctx: Context, orgId: string) {
  const { name } = await readOrganization(ctx, orgId);
  const setting = await TerminalSetting.query(ctx.tx).findById(orgId);
  return { enabled: setting?.enabled ?? false, name };
}

export async function changeTerminalSettings(ctx: Context, orgId: string, change: TerminalSettingsChange) {
  const { enabled, name } = await readTerminalSettings(ctx, orgId);
  await TerminalSetting.query(ctx.tx)
    .insert({ orgId, ...change, updatedAt: raw('now()') })
    .onConflict('org_id')
    .merge(['enabled', 'updated_at']);
  ctx.recordChange({ enabled }, change);
  return { ...change, name };
}

export async function listRecordings(ctx: Context, deviceId: string, query: PageQuery) {
  const device = await findDevice(ctx, deviceId);
  const page = await recordingsOf(ctx, device).page(query.page - 1, query.limit);
  return toPage(query, { ...page, results: page.results.map(shown) });
}

const shown = (terminal: TerminalModel): TerminalRecording => ({
  id: terminal.id,
  deviceId: terminal.deviceId,
  userId: terminal.userId,
  userName: terminal.userName,
  userEmail: terminal.userEmail,
  openedAt: terminal.openedAt,
  endedAt: terminal.endedAt,
  endReason: terminal.endReason,
  exitCode: terminal.exitCode,
  characters: Number(terminal.recordedTo),
  storedBytes: Number(terminal.storedBytes),
});

/** The recording as a file of asciicast v2, part by part. */
export async function downloadRecording(
  ctx: Context,
  { id: deviceId, recordingId }: { id: string; recordingId: string },
  encryptor: Encryptor,
): Promise<Download> {
  const device = await findDevice(ctx, deviceId);
  const terminal = await recordingsOf(ctx, device).findById(recordingId);
  if (terminal === undefined) throw notFound('Recording');
  const { table, column } = SEALED_TERMINAL_KEY;
  const { text: key } = encryptor.open(terminal.sealedKey, sealContext(table, column, terminal.id));
  return new Download({
    type: 'application/x-asciicast',
    fileName: `terminal-${terminal.id}.cast`,
    pieces: (within) =>
      castPieces(within, terminal, { key, title: `${device.hostname}, ${terminal.userName}` }),
    noted: { terminalId: terminal.id },
  });
}

async function* castPieces(
  within: Within,
  terminal: TerminalModel,
  { key, title }: { key: string; title: string },
): AsyncGenerator<string> {
  const { id, orgId, partCount, cols, rows, openedAt } = terminal;
  yield castHeader({ cols, rows, openedAt, title });
  for (let seq = 1; seq <= partCount; seq++) {
    const part = await within(({ tx }) =>
      TerminalPart.query(tx).findOne({ org_id: orgId, terminal_id: id, seq }),
    );
    // The retention time may end while it is sent.
    if (part === undefined) throw notFound('Recording');
    yield openPart(key, id, part.content);
  }
}
