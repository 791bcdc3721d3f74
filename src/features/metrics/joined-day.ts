import { SAMPLE_SECONDS } from '../../protocol/index.ts';
import { finished, type Pieces } from '../../platform/turns.ts';
import { packingCompactBlock, readableBlock } from './block.ts';
import type { ReadBlock } from './metric.ts';
import type { StoredBlock } from './metric.queries.ts';
import { joinBlocks } from './series.ts';

/**
 * The day of a device with its hours, and the hours that are in it. One of which not all can be read stays where it is,
 * because a later release may read it. `undefined` if nothing can be joined.
 */
export function joinedDay(
  known: StoredBlock | undefined,
  hours: readonly StoredBlock[],
  day: Date,
): JoinedDay | undefined {
  return finished(joiningDay(known, hours, day));
}

interface JoinedDay {
  block: Buffer;
  hours: StoredBlock[];
}

/** The same in pieces: a device that changes its names all the time has thousands of series in a day. */
export function* joiningDay(
  known: StoredBlock | undefined,
  hours: readonly StoredBlock[],
  day: Date,
): Pieces<JoinedDay | undefined> {
  const readable: { row: StoredBlock; block: ReadBlock }[] = [];
  for (const row of hours) {
    const block = wholeBlock(row);
    if (block !== undefined) readable.push({ row, block });
    yield;
  }
  const former = known === undefined ? undefined : wholeBlock(known);
  if (readable.length === 0 || (known !== undefined && former === undefined)) return undefined;
  const stretches = [
    ...(former === undefined ? [] : [{ beginsAt: day.getTime(), block: former }]),
    ...readable.map(({ row, block }) => ({ beginsAt: row.beginsAt.getTime(), block })),
  ];
  const joined = joinBlocks(stretches, day.getTime());
  yield;
  const block = yield* packingCompactBlock(joined, { hasRange: false });
  return block === undefined ? undefined : { block, hours: readable.map(({ row }) => row) };
}

function wholeBlock({ block }: StoredBlock): ReadBlock | undefined {
  const read = readableBlock(block);
  return read === undefined || read.hasUnknown || read.stepSeconds !== SAMPLE_SECONDS ? undefined : read;
}
