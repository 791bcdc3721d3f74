import { type Context, holds } from '../../platform/context.ts';
import { findDevice } from '../devices/index.ts';
import type { TimelineSource } from '../timeline-source.ts';
import { knownPeople } from '../users/index.ts';
import { newestEntries } from './timeline.queries.ts';
import {
  placeText,
  TimelineEntry,
  TimelineKind,
  type Timeline,
  type TimelineQuery,
} from './timeline.schema.ts';

/** What has happened to a device, newest first, of the kinds that the caller may read. */
export async function readTimeline(
  ctx: Context,
  id: string,
  { limit, kinds = TimelineKind.options, before }: TimelineQuery,
  allSources: readonly TimelineSource[],
): Promise<Timeline> {
  const { orgId } = await findDevice(ctx, id);
  const isWanted = ({ kind }: TimelineSource) => kinds.some((wanted) => wanted === kind);
  const mayRead = ({ permission }: TimelineSource) =>
    permission === undefined || holds(ctx.caller.permissions, permission);
  const sources = allSources.filter((source) => isWanted(source) && mayRead(source));
  // One more than is shown tells whether there are others.
  const found = await newestEntries(ctx.tx, sources, { deviceId: id, orgId, before, limit: limit + 1 });
  const shown = found.slice(0, limit);
  const people = await knownPeople(
    ctx,
    shown.flatMap(({ userId }) => userId ?? []),
  );
  const last = shown.at(-1);
  return {
    data: shown.flatMap(({ userId, userName, fields, ...entry }) => {
      const name = people.get(userId ?? '')?.name ?? userName;
      const by = name === null ? null : { id: userId, name };
      // What only another release knows keeps nothing else from being shown.
      return TimelineEntry.safeParse({ ...entry, ...fields, by }).data ?? [];
    }),
    next: found.length > limit && last !== undefined ? placeText(last) : null,
    hidden: TimelineKind.options.filter((kind) =>
      allSources.some((source) => source.kind === kind && !mayRead(source)),
    ),
  };
}
