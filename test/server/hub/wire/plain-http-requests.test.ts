import { expect } from 'chai';
import { call, sharedTestApp, type TestApp } from '../../../support/test-app.ts';

/** Requests to the path of the sockets that do not become a websocket: anybody can send them, without signing in. */
describe('a plain HTTP request to the path of the sockets', () => {
  let app: TestApp;
  before(async () => {
    app = await sharedTestApp();
  });
  after(() => app.close());

  for (const path of [
    '/hub',
    '/hub/',
    '/hub/?EIO=4&transport=polling',
    '/hub/?EIO=4&transport=websocket',
    '/hubs',
  ]) {
    for (const method of ['GET', 'POST', 'OPTIONS']) {
      it(`is answered once, and the server keeps running: ${method} ${path}`, async () => {
        const answer = await call(`${app.url}${path}`, method);
        expect([answer.status, answer.body.code]).to.deep.equal([404, 'NOT_FOUND']);
        expect((await call(`${app.url}/health/live`, 'GET')).status).to.equal(200);
      });
    }
  }
});
