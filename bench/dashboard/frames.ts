import type { CDPSession, Page } from 'playwright-core';
import { rounded } from '../hub/load/percentiles.ts';

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
