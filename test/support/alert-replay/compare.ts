import { MINUTE_MS, SECOND_MS } from '../../../src/clock.ts';

/**
 * Compares what a preview finds on a device with what was really raised. The differences that are allowed are those that
 * the preview states, and each is put here as a rule:
 *
 * 1. It goes by when things happened. An alert is raised by the first round after the server was told. A device that is
 *    back just before that round was never found to be away.
 * 2. What ends and begins again before a round could see the end is one alert, and no cooldown begins: what the preview
 *    leaves to a cooldown is raised, and so is it after an alert that no round could raise.
 * 3. What begins while the rule does not look (maintenance, devices out of service or not covered yet) is raised when it
 *    looks again, if it still lasts then. Where the device had left the rule, what stood was resolved.
 * 4. What was waiting, for that or for a cooldown, is noticed by a round of everything, which comes each ten minutes. What
 *    is over before it comes may not be raised; then no cooldown follows it.
 * 5. Of a device that came from another organization, of the figures of one that is back in service, and of a rule with
 *    another threshold, what began before is judged anew: until that is over, an alert may come at any time, or not at all.
 * 6. A preview waits for five samples without a volume before it ends its alert. If another volume follows meanwhile, it is
 *    counted in that alert in the preview, and may really be an alert of its own.
 * 7. Nothing is said of times in which a device dated its figures into the past, nor of those in which they were refused and
 *    its heartbeats were judged instead, which the history does not have.
 */

/** Rounds come so often, as servers have them. */
export const ROUND_MS = 30 * SECOND_MS;
/** And so often one of everything. */
export const WHOLE_EVERY_MS = 10 * MINUTE_MS;

/** An alert that was really raised, or that it was counted again. */
export interface Occurrence {
  deviceId: string;
  ruleId: string;
  raisedAt: number;
  resolvedAt: number | null;
}

export interface PreviewedAlert {
  raisedAt: number;
  resolvedAt: number | null;
  /** What of the device, such as the volume: an alert that stands counts each further one. */
  part?: string | undefined;
  /** What a cooldown does to it: it is not previewed at all, or at the end of the cooldown only. */
  cooled?: 'left out' | 'put off' | undefined;
}

/** @param uncooled  what the preview of the same rule without a cooldown finds */
export function withCooled(
  previewed: readonly PreviewedAlert[],
  uncooled: readonly PreviewedAlert[],
): PreviewedAlert[] {
  const isIn = (alerts: readonly PreviewedAlert[], { raisedAt, part }: PreviewedAlert) =>
    alerts.some((other) => other.raisedAt === raisedAt && other.part === part);
  return [
    ...previewed.map((one) => (isIn(uncooled, one) ? one : { ...one, cooled: 'put off' as const })),
    ...uncooled
      .filter((one) => !isIn(previewed, one))
      .map((one) => ({ ...one, cooled: 'left out' as const })),
  ];
}

export interface Span {
  from: number;
  to: number;
}

/** A time in which the rule does not look at the device. */
export interface Unseen extends Span {
  /** What stands is resolved: the device has left the rule. */
  ends?: true;
  /** What was found before is forgotten. */
  anew?: true;
}

export interface Circumstances extends Span {
  /** The times of the rounds, in order. */
  rounds: readonly number[];
  /** When the server was told of what happened at a time. */
  toldAt(at: number): number;
  /** The same of an end, if not every round after it sees it. */
  endToldAt?: ((at: number) => number) | undefined;
  /** Whether a round at that time finds what is over so soon that no round may. */
  isSeenAt?: ((round: number) => boolean) | undefined;
  unseen: readonly Unseen[];
  /** Whatever lasts in one of these is not compared. */
  unsure?: readonly Span[];
  /** Rule 2 does not hold: each time counts. */
  countsEach?: boolean;
  cooldownMs: number;
  /** How exactly its end is known: a volume is taken out between two messages. */
  endsWithinMs: number;
  /** What happened so long before the end may have ended it. */
  endsEarlierMs?: number;
  /** Whether the device still has that part of it at a time. */
  hasPart?: ((part: string, at: number) => boolean) | undefined;
}

type Raised = Pick<Occurrence, 'raisedAt' | 'resolvedAt'>;

interface Expected {
  raisedAt: number;
  resolvedAt: number | null;
  /** It may be resolved from then on. Undefined: not earlier. */
  mayEndFrom: number | undefined;
  /** Rule 6: it may be resolved from the one to the other instead. */
  orEnds: Span | undefined;
  /** It may be raised later by as much. */
  waitsMs: number;
  /** Rule 5. */
  isAnew: boolean;
  /** The device left the rule, which a round of everything notices. */
  isCut: boolean;
  /** Of the preview. */
  ends: number | null;
  part: string | undefined;
}

/** What was met and over within one message, or between two rounds, is kept for this time. */
const KEPT_MS = 75 * SECOND_MS;
const WHOLE_ROUND_MS = WHOLE_EVERY_MS + ROUND_MS;

/** @returns the differences, in words; and how many alerts were compared */
export function differences(
  previewed: readonly PreviewedAlert[],
  raised: readonly Raised[],
  circumstances: Circumstances,
): { compared: number; found: string[] } {
  const { from, to, rounds, toldAt, endsWithinMs, unsure = [] } = circumstances;
  // What lies about the edges may be on either side: a message has minutes from before and after them.
  const begin = firstAtOrAfter(rounds, toldAt(Math.ceil(from / MINUTE_MS) * MINUTE_MS)) + WHOLE_ROUND_MS;
  const end = to - WHOLE_ROUND_MS;
  const isCompared = (one: Raised) =>
    one.raisedAt > begin && one.raisedAt <= end && !unsure.some((span) => lastsIn(one, span));
  const expected = expectedOf(previewed, raised, circumstances);
  const before = circumstances.unseen.filter(({ anew }) => anew === true);
  const wasBefore = ({ raisedAt }: Raised) =>
    before.some((span) => raisedAt >= span.from && raisedAt <= span.to);
  const found: string[] = [];
  const real = raised
    .filter((one) => one.raisedAt > begin && one.raisedAt <= to && !wasBefore(one))
    .sort((a, b) => a.raisedAt - b.raisedAt);
  let compared = 0;
  for (const one of expected.filter(isCompared)) {
    const place = real.findIndex((other) => isRaisedAs(one, other));
    const [match] = place < 0 ? [] : real.splice(place, 1);
    if (match === undefined) {
      const stands = raised.some((other) => wasBefore(other) && lastsIn(other, pointOf(one.raisedAt)));
      if (!mayPass(one) && !stands) found.push(`${inWords(one)} was not raised`);
      continue;
    }
    compared += 1;
    if (!endsTogether(one, match, { to, withinMs: endsWithinMs })) {
      found.push(`${inWords(one)} really ended ${at(match.resolvedAt)}`);
    }
  }
  const anew = expected.filter(({ isAnew }) => isAnew);
  for (const one of real) {
    const isAllowed = anew.some((span) => lastsIn(span, pointOf(one.raisedAt)));
    if (isCompared(one) && !isAllowed) found.push(`${inWords(one)} was not previewed`);
  }
  return { compared, found };
}

const lastsIn = ({ raisedAt, resolvedAt }: Raised, { from, to }: Span) =>
  raisedAt <= to && (resolvedAt === null || resolvedAt >= from);
const pointOf = (time: number): Span => ({ from: time, to: time });

const isRaisedAs = (
  { raisedAt, waitsMs }: Pick<Expected, 'raisedAt' | 'waitsMs'>,
  { raisedAt: at }: Raised,
): boolean => at >= raisedAt - ROUND_MS && at <= raisedAt + waitsMs + ROUND_MS;

/** Whether it may be over before the round comes that it waits for. */
const mayPass = ({ raisedAt, resolvedAt, waitsMs, isAnew }: Expected) =>
  isAnew || (waitsMs > 0 && resolvedAt !== null && resolvedAt <= raisedAt + waitsMs);

function endsTogether(
  one: Expected,
  { resolvedAt }: Raised,
  { to, withinMs }: { to: number; withinMs: number },
): boolean {
  if (one.resolvedAt === null || one.resolvedAt > to - WHOLE_ROUND_MS) {
    return resolvedAt === null || resolvedAt > to - 2 * WHOLE_ROUND_MS;
  }
  const tolerance = one.isCut ? WHOLE_ROUND_MS : withinMs;
  if (resolvedAt === null) return false;
  const isWithin = ({ from, to: end }: Span) => resolvedAt >= from - ROUND_MS && resolvedAt <= end + ROUND_MS;
  if (one.orEnds !== undefined && isWithin(one.orEnds)) return true;
  return (
    resolvedAt >= (one.mayEndFrom ?? one.resolvedAt) - tolerance && resolvedAt <= one.resolvedAt + tolerance
  );
}

/** A previewed alert, or the part of it before or after the device has left the rule. */
interface Part {
  begins: number;
  ends: number | null;
  toldAt: number;
  endToldAt: number | null;
  isCut: boolean;
  part: string | undefined;
  cooled: PreviewedAlert['cooled'];
}

function partsOf(
  { raisedAt, resolvedAt, part, cooled }: PreviewedAlert,
  { rounds, toldAt, endToldAt = toldAt, unseen }: Circumstances,
): Part[] {
  const whole: Part = {
    begins: raisedAt,
    ends: resolvedAt,
    toldAt: toldAt(raisedAt),
    endToldAt: resolvedAt === null ? null : endToldAt(resolvedAt),
    isCut: false,
    part,
    cooled,
  };
  const parts: Part[] = [];
  let rest = whole;
  for (const { from, ends } of unseen.toSorted((a, b) => a.from - b.from)) {
    if (ends !== true || firstAtOrAfter(rounds, rest.toldAt) >= from) continue;
    if (rest.endToldAt !== null && firstAtOrAfter(rounds, rest.endToldAt) <= from) continue;
    parts.push({ ...rest, ends: from, endToldAt: from, isCut: true });
    rest = { ...rest, begins: from, toldAt: from };
  }
  return [...parts, rest];
}

function expectedOf(
  previewed: readonly PreviewedAlert[],
  raised: readonly Raised[],
  circumstances: Circumstances,
): Expected[] {
  const { to, rounds, unseen, cooldownMs, countsEach = false, endsEarlierMs = 0 } = circumstances;
  const expected: Expected[] = [];
  const parts = previewed
    .toSorted((a, b) => a.raisedAt - b.raisedAt)
    .flatMap((alert) => partsOf(alert, circumstances))
    .sort((a, b) => a.begins - b.begins);
  /** Whether the alert whose cooldown the preview goes by was never raised, as far as that is allowed. */
  let isUnraised = false;
  /** The end of what the preview leaves out and was raised. At the end of the cooldown it is not raised again. */
  let uncooledEnds: number | null | undefined;
  for (const { begins, ends, toldAt, endToldAt, isCut, part, cooled } of parts) {
    let raisedAt = firstAtOrAfter(rounds, toldAt);
    if (circumstances.isSeenAt?.(raisedAt) === false) {
      isUnraised ||= cooled !== 'left out';
      continue;
    }
    if (cooled === 'put off' && ends === uncooledEnds) continue;
    let resolvedAt = endToldAt === null ? null : firstAtOrAfter(rounds, endToldAt);
    if (resolvedAt !== null && endToldAt !== null && resolvedAt <= raisedAt) {
      resolvedAt = firstAtOrAfter(rounds, endToldAt + KEPT_MS);
    }
    let waitsMs = 0;
    let isAnew = false;
    for (const span of unseen.toSorted((a, b) => a.to - b.to)) {
      if (raisedAt < span.from || raisedAt >= span.to) continue;
      // The servers may be down when it looks again.
      raisedAt = firstAtOrAfter(rounds, span.to);
      waitsMs = WHOLE_ROUND_MS;
      if (span.anew === true) isAnew = true;
    }
    if (waitsMs > 0 && resolvedAt !== null && resolvedAt <= raisedAt) {
      isUnraised = true;
      continue;
    }
    if (isAnew) waitsMs = (resolvedAt ?? to) - raisedAt;
    const last = expected.at(-1);
    if (last !== undefined) waitsMs = Math.max(waitsMs, coolingMs(last, raisedAt, cooldownMs));
    const mayEndFrom =
      ends === null || isCut || endsEarlierMs === 0
        ? undefined
        : firstAtOrAfter(rounds, circumstances.toldAt(Math.max(begins, ends - endsEarlierMs)));
    const isTogether = raisedAt === last?.raisedAt;
    const goesOn =
      last !== undefined &&
      !last.isCut &&
      !countsEach &&
      isBefore(last.ends, begins) &&
      last.resolvedAt !== null &&
      toldAt <= last.resolvedAt;
    if (cooled === 'left out') {
      const stands =
        last !== undefined &&
        (goesOn || (countsEach && last.resolvedAt !== null && raisedAt < last.resolvedAt));
      if (!stands && !isUnraised) continue;
      uncooledEnds = ends;
    }
    const one = { raisedAt, resolvedAt, mayEndFrom, orEnds: undefined, waitsMs, isAnew, isCut, ends, part };
    const isFurther = goesOn && !isTogether && part !== last.part;
    const isNew = last === undefined || isFurther || (!isTogether && !goesOn);
    isUnraised = isNew && !isAnew && mayPass(one) && !raised.some((other) => isRaisedAs(one, other));
    if (isUnraised) continue;
    // All that an alert counts is resolved together.
    if (isFurther) Object.assign(last, { resolvedAt, mayEndFrom, isCut });
    const isOut = last?.part !== undefined && circumstances.hasPart?.(last.part, begins) === false;
    if (isOut && !isBefore(last.ends, begins)) {
      const outAt = circumstances.toldAt(begins - endsEarlierMs);
      last.orEnds = { from: firstAtOrAfter(rounds, outAt), to: raisedAt };
    }
    if (isNew) {
      expected.push(one);
      continue;
    }
    last.ends = ends;
    last.mayEndFrom = mayEndFrom;
    last.isCut = isCut;
    // What an alert that stands is told to begin and end again in one message only ends it.
    const toldEnd = endToldAt === null ? null : firstAtOrAfter(rounds, endToldAt);
    last.resolvedAt =
      toldEnd === null || last.resolvedAt === null ? null : Math.max(last.resolvedAt, toldEnd);
  }
  return expected;
}

/** How long what returns in the cooldown after an alert may wait. A cooldown begins with the round that resolves the alert. */
function coolingMs(
  { raisedAt, resolvedAt, waitsMs, isCut }: Expected,
  now: number,
  cooldownMs: number,
): number {
  if (cooldownMs === 0 || resolvedAt === null) return 0;
  // None has begun yet, but for one that the alert itself waits for.
  if (now < resolvedAt && !isCut) return Math.max(0, raisedAt + waitsMs - now);
  const until = resolvedAt + (isCut ? WHOLE_ROUND_MS : 0) + cooldownMs + ROUND_MS;
  return now > until ? 0 : until - now + WHOLE_ROUND_MS;
}

const isBefore = (one: number | null, other: number) => one !== null && one <= other;

/** @param times  in order */
export function firstAtOrAfter(times: readonly number[], at: number): number {
  let [low, high] = [0, times.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((times[middle] ?? 0) < at) low = middle + 1;
    else high = middle;
  }
  return times[low] ?? Number.POSITIVE_INFINITY;
}

const at = (time: number | null) => (time === null ? 'never' : new Date(time).toISOString().slice(5, 19));
const inWords = ({ raisedAt, resolvedAt }: Raised) => `${at(raisedAt)} to ${at(resolvedAt)}`;
