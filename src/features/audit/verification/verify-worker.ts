import { parentPort } from 'node:worker_threads';
import { entryFromBundleLine } from '../chain/bundle.ts';
import type { SealedEntry } from '../chain/chain.ts';
import { entryFromCopyRow } from '../storage/copy-row.ts';
import { segmentOf } from '../chain/entry-segment.ts';
import { linesIn } from './line-chunk.ts';
import type { VerifyResponse, VerifyRequest } from './verify-worker-pool.ts';

/** The thread that `VerifyWorkerPool` starts. */

const ENTRY_OF = { copied: entryFromCopyRow, bundled: entryFromBundleLine };

parentPort?.on('message', ({ form, bytes }: VerifyRequest) => {
  const entries: (SealedEntry | undefined)[] = [];
  for (const line of linesIn(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength))) {
    entries.push(ENTRY_OF[form](line));
  }
  const answer: VerifyResponse = { run: segmentOf(entries) };
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- that is for windows; this is a thread
  parentPort?.postMessage(answer);
});
