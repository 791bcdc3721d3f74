import {
  type Ending,
  hasDoneItsWork,
  type JobOutput,
  type JobUpdate,
  scriptFailure,
} from '../../protocol/index.ts';
import { type Output, visible, visibleLines } from './output.ts';

/** Prints what jobs of several devices write, line by line and by device, and how they end. */

export interface FollowedJob {
  id: string;
  deviceId: string;
  orgId: string;
  hostname: string;
}

export interface JobEnd extends Ending {
  message?: string;
}

type Stream = JobOutput['rows'][number]['stream'];
const STREAMS: readonly Stream[] = ['stdout', 'stderr'];

export interface JobReport {
  goesOn(job: FollowedJob, update: JobUpdate): void;
  output(job: FollowedJob, seq: number, rows: JobOutput['rows']): void;
  /** All that the job has written. */
  rest(job: FollowedJob, whole: Record<Stream, string> & { truncated: boolean }): void;
  ended(job: FollowedJob, end: JobEnd, progress: { ended: number; of: number }): void;
  remark(text: string): void;
}

interface Seen {
  nextSeq: number;
  hasGap: boolean;
  /** How many characters of each stream were printed before the first gap, and after it. */
  before: Record<Stream, number>;
  after: Record<Stream, number>;
  /** The last that was printed since the last gap. */
  sinceGap: Record<Stream, string>;
  /** A line that has not ended. */
  open: Record<Stream, string>;
  /** What was said last about how far it is. */
  said: string;
}

const NAME_MAX = 30;
/** Of more devices, only the ends are remarked. */
const NAMED_MAX = 20;
/** A line that is longer is printed in parts. */
const LINE_MAX = 8000;
/** How much of an output is compared to find out whether it is the end. */
const COMPARED = 200;

export function createJobReport(output: Output, jobs: readonly FollowedJob[]): JobReport {
  const width = Math.max(0, ...jobs.map(({ hostname }) => Math.min(visible(hostname).length, NAME_MAX)));
  const all = new Map<string, Seen>();
  const seenOf = ({ id }: FollowedJob): Seen => {
    const seen = all.get(id) ?? {
      nextSeq: 0,
      hasGap: false,
      before: { stdout: 0, stderr: 0 },
      after: { stdout: 0, stderr: 0 },
      sinceGap: { stdout: '', stderr: '' },
      open: { stdout: '', stderr: '' },
      said: '',
    };
    all.set(id, seen);
    return seen;
  };
  const printLine = (job: FollowedJob, stream: Stream, text: string) => {
    const mark = stream === 'stdout' ? '|' : '!';
    output.line(`${visible(job.hostname).padEnd(width)} ${mark} ${visibleLines(text)}`);
  };
  const print = (job: FollowedJob, stream: Stream, text: string) => {
    const seen = seenOf(job);
    if (output.isJson) {
      const { id, deviceId, hostname } = job;
      output.json({ type: 'output', id, deviceId, hostname, stream, text });
      return;
    }
    const lines = `${seen.open[stream]}${text}`.split(/\r?\n/);
    let open = lines.pop() ?? '';
    for (const line of lines) printLine(job, stream, line);
    while (open.length > LINE_MAX) {
      printLine(job, stream, open.slice(0, LINE_MAX));
      open = open.slice(LINE_MAX);
    }
    seen.open[stream] = open;
  };
  const endLines = (job: FollowedJob) => {
    const { open } = seenOf(job);
    for (const stream of STREAMS) {
      if (open[stream] !== '') printLine(job, stream, open[stream]);
      open[stream] = '';
    }
  };

  return {
    goesOn(job, { state, phase, percent }) {
      const seen = seenOf(job);
      const done = percent == null ? '' : `${Math.floor(percent)} %`;
      const said = [phase === state ? state : `${state}: ${phase}`, done]
        .filter((part) => part !== '')
        .join(' ');
      if (said === seen.said) return;
      seen.said = said;
      if (output.isJson) {
        const { id, deviceId, hostname } = job;
        output.json({ type: 'progress', id, deviceId, hostname, state, phase, percent: percent ?? null });
      } else if (jobs.length <= NAMED_MAX) output.remark(`${job.hostname}: ${said}`);
    },
    output(job, seq, rows) {
      const seen = seenOf(job);
      if (seq < seen.nextSeq) return;
      // What is missing is stored with the end of the job, and follows then.
      if (seq > seen.nextSeq) {
        seen.hasGap = true;
        seen.sinceGap = { stdout: '', stderr: '' };
      }
      seen.nextSeq = seq + 1;
      for (const { stream, text } of rows) {
        if (seen.hasGap) seen.sinceGap[stream] = `${seen.sinceGap[stream]}${text}`.slice(-COMPARED);
        seen[seen.hasGap ? 'after' : 'before'][stream] += text.length;
        print(job, stream, text);
      }
    },
    rest(job, whole) {
      const { before, hasGap } = seenOf(job);
      const seenSome = hasGap || STREAMS.some((stream) => before[stream] > 0);
      // Of a long output the device keeps the end, and it is not known which part of that was printed.
      const rests = STREAMS.map((stream) =>
        whole.truncated && seenSome ? '' : restOf(seenOf(job), stream, whole[stream]),
      );
      if (hasGap && rests.some((rest) => rest !== '')) {
        endLines(job);
        output.remark(`${job.hostname}: this was missing above:`);
      }
      STREAMS.forEach((stream, at) => {
        const rest = rests[at] ?? '';
        if (rest !== '') print(job, stream, rest);
      });
      endLines(job);
      if (whole.truncated && (hasGap || !seenSome)) {
        output.remark(`${job.hostname}: it has written more than is shown.`);
      }
    },
    ended(job, end, { ended, of }) {
      endLines(job);
      all.delete(job.id);
      const { id, deviceId, hostname } = job;
      if (output.isJson) {
        const { state, exitCode = null, message } = end;
        const ok = hasDoneItsWork(end);
        output.json({
          type: 'end',
          id,
          deviceId,
          hostname,
          ok,
          state,
          exitCode,
          ...(message === undefined ? {} : { message }),
        });
      } else output.remark(`[${ended}/${of}] ${hostname}: ${endInWords(end)}`);
    },
    remark: (text) => output.remark(text),
  };
}

/** The part of a stream that was not printed while the job ran. Pure. */
function restOf({ before, after, hasGap, sinceGap }: Seen, stream: Stream, whole: string): string {
  // What was printed after a gap is the end, unless something was missed there as well.
  const isEnd = hasGap && whole.endsWith(sinceGap[stream]);
  return whole.slice(before[stream], isEnd ? whole.length - after[stream] : undefined);
}

/** The end of a job in words. */
const endInWords = ({ state, exitCode, message }: JobEnd): string =>
  [state, scriptFailure({ state, exitCode }) ?? '', message ?? ''].filter((part) => part !== '').join(': ');
