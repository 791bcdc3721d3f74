import { parentPort } from 'node:worker_threads';
import { bundledEntry } from '../chain/bundle.ts';
import type { SealedEntry } from '../chain/chain.ts';
import { copiedEntry } from '../storage/copy-row.ts';
import { runOf } from '../chain/entry-segment.ts';
import { linesIn } from './line-chunk.ts';
import type { RunAnswer, RunQuestion } from './verify-worker-pool.ts';

/** The thread that `RunWorkers` starts. */

const ENTRY_OF = { copied: copiedEntry, bundled: bundledEntry };

parentPort?.on('message', ({ form, bytes }: RunQuestion) => {
  const entries: (SealedEntry | undefined)[] = [];
  for (const line of linesIn(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength))) {
    entries.push(ENTRY_OF[form](line));
  }
  const answer: RunAnswer = { run: runOf(entries) };
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- that is for windows; this is a thread
  parentPort?.postMessage(answer);
});
