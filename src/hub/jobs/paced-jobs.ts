import type { JobOutput } from '../../protocol/index.ts';
import type { EventJson, FlowControl } from '../sockets/flow-controlled-client.ts';
import type { EncodedJob } from './encoded-job.ts';
import type { JobFollower } from './job-audience.ts';

/** Before it is seen whether the client has taken them. */
const JOBS_AT_ONCE = 50;
/** A client for which the newest states of more jobs wait does not keep up. It subscribes again after it has reconnected. */
const WAITING_MAX = 10_000;
/** Output beyond this is left out, which the client sees by the gap in `seq`. */
const WAITING_OUTPUT_MAX = 100;

interface Client {
  flow: FlowControl;
  send: (event: EventJson) => void;
}

/**
 * Sends one client the updates of jobs when it has time to read them, and of each job the latest
 * (docs/decisions/slow-dashboards.md).
 */
export class PacedJobs implements JobFollower {
  readonly #client: Client;
  readonly #jobs = new Map<string, EncodedJob>();
  #output: JobOutput[] = [];
  #isWaiting = false;
  #isClosed = false;

  constructor(client: Client) {
    this.#client = client;
  }

  updated(job: EncodedJob): void {
    if (this.#isClosed) return;
    this.#jobs.set(job.update.id, job);
    if (this.#jobs.size > WAITING_MAX) return this.#giveUp();
    this.#send();
  }

  output(output: JobOutput): void {
    if (this.#isClosed || this.#output.length >= WAITING_OUTPUT_MAX) return;
    this.#output.push(output);
    this.#send();
  }

  close(): void {
    this.#isClosed = true;
    this.#jobs.clear();
    this.#output = [];
  }

  #send(): void {
    if (this.#isWaiting || this.#isClosed) return;
    const { flow, send } = this.#client;
    if (flow.isReady) {
      // The output of a job precedes its end.
      for (const output of this.#output.splice(0)) send(outputEvent(output));
      let sent = 0;
      for (const [id, job] of this.#jobs) {
        if (sent >= JOBS_AT_ONCE) break;
        sent += 1;
        this.#jobs.delete(id);
        send(job.event);
      }
    }
    if (this.#jobs.size === 0 && this.#output.length === 0) return;
    this.#isWaiting = true;
    flow.whenReady(() => {
      this.#isWaiting = false;
      this.#send();
    });
  }

  #giveUp(): void {
    this.close();
    this.#client.flow.cutOff();
  }
}

function outputEvent(output: JobOutput): EventJson {
  const text = `${JSON.stringify(output)}]`;
  return { start: '["job:output",', end: { text, bytes: Buffer.from(text) } };
}
