import { median, rounded } from '../hub/load/percentiles.ts';
import type { Ground } from './ground.ts';

const TIMES = 10;

export interface FirstPaint {
  /** Medians in milliseconds from the start of the navigation, of ten browsers that were never here. */
  signInPaintMs: number;
  overviewPaintMs: number;
  /** Until the first row of the table of devices stands there. */
  firstDeviceMs: number;
}

export async function measureFirstPaint(ground: Ground): Promise<FirstPaint> {
  const times = { signIn: [] as number[], overview: [] as number[], device: [] as number[] };
  for (let time = 0; time < TIMES; time++) {
    const page = await ground.newPage();
    await page.goto('/login');
    await page.getByRole('heading', { level: 1 }).waitFor();
    times.signIn.push(await page.evaluate<number>(PAINT));
    await page.context().close();

    const overview = await ground.open('/');
    await overview.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
    times.overview.push(await overview.evaluate<number>(PAINT));
    await overview.context().close();

    const devices = await ground.open('/devices');
    times.device.push(
      await devices.evaluate<number>(`new Promise((resolve) => {
        requestAnimationFrame(function look() {
          if (document.querySelector('[role=grid] [data-place]') !== null) return resolve(performance.now());
          requestAnimationFrame(look);
        });
      })`),
    );
    await devices.context().close();
  }
  return {
    signInPaintMs: rounded(median(times.signIn), 0),
    overviewPaintMs: rounded(median(times.overview), 0),
    firstDeviceMs: rounded(median(times.device), 0),
  };
}

const PAINT = `new Promise((resolve) => {
  new PerformanceObserver((list) => {
    for (const { name, startTime } of list.getEntries()) if (name === 'first-contentful-paint') resolve(startTime);
  }).observe({ type: 'paint', buffered: true });
})`;
