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
  /** How many characters were printed, of each stream. */
  printed: Record<Stream, number>;
  /** A line that has not ended. */
  open: Record<Stream, string>;
  /** What was said last about how far it is. */
  said: string;
}

const NAME_MAX = 30;
/** A line that is longer is printed in parts. */
const LINE_MAX = 8000;

export function createJobReport(output: Output, jobs: readonly FollowedJob[]): JobReport {
  const width = Math.max(0, ...jobs.map(({ hostname }) => Math.min(visible(hostname).length, NAME_MAX)));
  const all = new Map<string, Seen>();
  const seenOf = ({ id }: FollowedJob): Seen => {
    const seen = all.get(id) ?? {
      nextSeq: 0,
      hasGap: false,
      printed: { stdout: 0, stderr: 0 },
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
    seen.printed[stream] += text.length;
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
      } else if (state === 'running' || percent != null) output.remark(`${job.hostname}: ${said}`);
    },
    output(job, seq, rows) {
      const seen = seenOf(job);
      if (seq < seen.nextSeq) return;
      // What is missing follows when the job has ended, so that all of it is in its order.
      seen.hasGap ||= seq > seen.nextSeq;
      seen.nextSeq = seq + 1;
      if (seen.hasGap) return;
      for (const { stream, text } of rows) print(job, stream, text);
    },
    rest(job, whole) {
      const { printed } = seenOf(job);
      // Of a long output the device keeps the end, and it is not known which part of that was printed.
      const isCut = whole.truncated && STREAMS.some((stream) => printed[stream] > 0);
      for (const stream of STREAMS) {
        const rest = isCut ? '' : whole[stream].slice(printed[stream]);
        if (rest !== '') print(job, stream, rest);
      }
      endLines(job);
      if (whole.truncated && (!isCut || seenOf(job).hasGap)) {
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

/** The end of a job in words. */
const endInWords = ({ state, exitCode, message }: JobEnd): string =>
  [state, scriptFailure({ state, exitCode }) ?? '', message ?? ''].filter((part) => part !== '').join(': ');
