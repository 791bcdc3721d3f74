import type { Browser, Page } from 'playwright-core';
import { z } from 'zod';
import { launchChromium } from '../../test/support/browser.ts';
import { ANY_CORE, startProcess, type OwnProcess } from '../hub/processes.ts';

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
