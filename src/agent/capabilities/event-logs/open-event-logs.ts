import { combinedReader } from './combined-reader.ts';
import { hasJournal, journaldReader } from './journald/journald-reader.ts';
import { macosReader } from './macos/macos-reader.ts';
import type { EventLogReader } from './reader.ts';
import { textReader } from './text/text-reader.ts';
import type { UnpackSpace } from './text/unpack-space.ts';
import { windowsReader } from './windows/windows-reader.ts';

export interface EventLogs {
  reader: EventLogReader;
  /** Whether the machine has a journal of systemd. Then the system's text files repeat what is in it. */
  hasJournal: boolean;
}

/** The logs of this machine. Linux has a journal and text files of applications, or text files only. */
export async function openEventLogs(unpackSpace?: UnpackSpace): Promise<EventLogs> {
  if (process.platform === 'win32') return { reader: windowsReader(), hasJournal: false };
  if (process.platform === 'darwin') return { reader: macosReader(), hasJournal: false };
  const options = unpackSpace === undefined ? {} : { unpackSpace };
  if (!(await hasJournal())) return { reader: textReader(options), hasJournal: false };
  const reader = combinedReader(journaldReader(), textReader({ ...options, besideJournal: true }));
  return { reader, hasJournal: true };
}
