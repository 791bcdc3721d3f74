import { hasJournal, journaldReader } from './journald/journald-reader.ts';
import { macosReader } from './macos/macos-reader.ts';
import type { EventLogReader } from './reader.ts';
import { textReader } from './text/text-reader.ts';
import type { UnpackSpace } from './text/unpack-space.ts';
import { windowsReader } from './windows/windows-reader.ts';

/** The reader for this machine. On Linux, a journal with entries takes precedence over text files. */
export async function openEventLogs(unpackSpace?: UnpackSpace): Promise<EventLogReader> {
  if (process.platform === 'win32') return windowsReader();
  if (process.platform === 'darwin') return macosReader();
  if (await hasJournal()) return journaldReader();
  return textReader(unpackSpace === undefined ? {} : { unpackSpace });
}
