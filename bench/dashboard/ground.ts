import type { Browser, Page, CDPSession } from 'playwright-core';
import { z } from 'zod';
import { launchChromium } from '../../test/support/browser.ts';
import { ANY_CORE, startProcess, type OwnProcess, rounded } from '../hub/harness.ts';

const Parts = z.object({
  token: z.string(),
  logging: z.object({ deviceId: z.string(), token: z.string() }),
});

/** The server with its fleet in a process of its own, and a browser. */
export class Ground {
  readonly url: string;
  readonly #server: OwnProcess;
  readonly #browser: Browser;

  private constructor(server: OwnProcess, browser: Browser) {
    this.#server = server;
    this.#browser = browser;
    this.url = server.greeting;
  }

  static async start(devices: number): Promise<Ground> {
    const server = await startProcess('../dashboard/server.ts', {
      cores: ANY_CORE,
      env: { BENCH_DEVICES: String(devices) },
    });
    return new Ground(server, await launchChromium());
  }

  async stop(): Promise<void> {
    await this.#browser.close();
    await this.#server.stop();
  }

  async call(command: 'report' | 'stop', order: object = {}): Promise<unknown> {
    return this.#server.call(command, order);
  }

  async parts(): Promise<z.infer<typeof Parts>> {
    return Parts.parse(await this.#server.call('parts', {}));
  }

  /** A page of a browser that was never here, with nobody signed in. */
  async newPage(): Promise<Page> {
    const context = await this.#browser.newContext({
      baseURL: this.url,
      viewport: { width: 1280, height: 720 },
    });
    context.setDefaultTimeout(120_000);
    return context.newPage();
  }

  async open(path: string, page?: Page): Promise<Page> {
    const opened = page ?? (await this.newPage());
    await opened.goto(path + String(await this.#server.call('signIn', {})));
    return opened;
  }
}

/** What a person feels of a page over some seconds. */
export interface Frames {
  fps: number;
  /** The 95th percentile and the longest time between two frames. */
  p95Ms: number;
  longestMs: number;
  /** Processor time of the main thread of the page for each frame, which other programs do not lengthen as they do fps. */
  cpuMsPerFrame: number;
  /** And how much of a core it needs. */
  cpuPercent: number;
}

/** Pixels per frame, about two rows: as fast as a person turns a wheel who looks for something. */
const STEP = 60;

/**
 * Counts frames by `requestAnimationFrame`. While they are counted, the part of the page that `selector` names is scrolled
 * by the main thread in every frame, back and forth; without it, nothing is.
 */
export async function countFrames(page: Page, seconds: number, selector?: string): Promise<Frames> {
  const session = await page.context().newCDPSession(page);
  await session.send('Performance.enable', { timeDomain: 'threadTicks' });
  const before = await cpuSeconds(session);
  const gaps = await page.evaluate<number[]>(`new Promise((resolve) => {
    const area = ${selector === undefined ? 'undefined' : `document.querySelector(${JSON.stringify(selector)})`};
    if (area === null) throw new Error('There is nothing to scroll.');
    const gaps = [];
    const until = performance.now() + ${seconds * 1000};
    let last = performance.now();
    let step = ${STEP};
    requestAnimationFrame(function frame(now) {
      gaps.push(now - last);
      last = now;
      if (now > until) return resolve(gaps);
      if (area !== undefined) {
        const most = area.scrollHeight - area.clientHeight;
        if (area.scrollTop >= most - 1) step = -${STEP};
        if (area.scrollTop <= 0) step = ${STEP};
        area.scrollTop += step;
      }
      requestAnimationFrame(frame);
    });
  })`);
  const cpu = (await cpuSeconds(session)) - before;
  await session.detach();
  const sorted = gaps.slice(1).sort((a, b) => a - b);
  const total = sorted.reduce((sum, gap) => sum + gap, 0);
  return {
    fps: rounded((sorted.length / total) * 1000, 1),
    p95Ms: rounded(sorted[Math.floor(sorted.length * 0.95)] ?? 0, 1),
    longestMs: rounded(sorted.at(-1) ?? 0, 1),
    cpuMsPerFrame: rounded((cpu * 1000) / gaps.length, 1),
    cpuPercent: rounded((cpu / total) * 100_000, 0),
  };
}

async function cpuSeconds(session: CDPSession): Promise<number> {
  const { metrics } = await session.send('Performance.getMetrics');
  return metrics.find(({ name }) => name === 'TaskDuration')?.value ?? 0;
}

/** What the page holds, after a collection. */
export interface Held {
  heapMiB: number;
  nodes: number;
  listeners: number;
}

export async function held(page: Page): Promise<Held> {
  const session = await page.context().newCDPSession(page);
  await session.send('HeapProfiler.enable');
  for (let turn = 0; turn < 3; turn++) await session.send('HeapProfiler.collectGarbage');
  const { usedSize } = await session.send('Runtime.getHeapUsage');
  const { nodes, jsEventListeners } = await session.send('Memory.getDOMCounters');
  await session.detach();
  return { heapMiB: rounded(usedSize / 2 ** 20, 1), nodes, listeners: jsEventListeners };
}
