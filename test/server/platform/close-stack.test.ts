import { expect } from 'chai';
import { Agent, get } from 'node:http';
import { CloseStack } from '../../../src/platform/close-stack.ts';
import { recordingLog } from '../../support/quiet-log.ts';
import { createTestApp } from '../../support/test-app.ts';

describe('closing a server', () => {
  it('runs every step in reverse order, even after a failure, and then reports the failures', async () => {
    const { log, lines } = recordingLog();
    const steps = new CloseStack(log);
    const done: string[] = [];
    steps.add('first', () => done.push('first'));
    steps.add('stuck', () => new Promise(() => {}), { withinMs: 20 });
    steps.add('throws', () => {
      throw new Error('it does not close');
    });
    steps.add('last', async () => done.push('last'));
    const failure = await steps.close().catch((error: unknown) => error);
    expect(done).to.deep.equal(['last', 'first']);
    expect(failure).to.be.instanceOf(AggregateError);
    const failed = lines.filter(({ event }) => event === 'server.close_step_failed');
    expect(failed.map(({ step }) => step)).to.deep.equal(['throws', 'stuck']);
  });

  it('runs no step twice', async () => {
    const steps = new CloseStack(recordingLog().log);
    let count = 0;
    steps.add('once', () => (count += 1));
    await Promise.all([steps.close(), steps.close()]);
    expect(count).to.equal(1);
  });

  it('does not wait for clients that keep their connections and go on sending requests', async function () {
    this.timeout(120_000);
    const app = await createTestApp();
    const agent = new Agent({ keepAlive: true, maxSockets: 4 });
    const over = new AbortController();
    const headers: (string | undefined)[] = [];
    const askAgain = () =>
      new Promise<void>((resolve) => {
        get(`${app.url}/health`, { agent }, (response) => {
          headers.push(response.headers.connection);
          response.resume();
          response.on('close', resolve);
        }).on('error', () => resolve());
      });
    const clients = Array.from({ length: 4 }, async () => {
      while (!over.signal.aborted) {
        await askAgain();
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
    });
    const startedAt = performance.now();
    await app.close();
    const tookMs = performance.now() - startedAt;
    over.abort();
    await Promise.all(clients);
    agent.destroy();
    expect(headers).to.include('close');
    expect(tookMs).to.be.below(5000);
  });
});
