import { expect } from 'chai';
import { ApiError } from '../../../src/dashboard/api/request.ts';

describe('a refusal of the API in a form', () => {
  const refused = (details: unknown) =>
    new ApiError(400, { error: 'body.name: is too short', code: 'VALIDATION_FAILED', details });

  it('has the rule of each field under the name of the field, without the part of the request', () => {
    const { fields } = refused([
      { path: 'body.name', message: 'is too short' },
      { path: 'body.schedule.time', message: 'must be a time' },
      { path: 'query.page', message: 'must be a number' },
    ]);
    expect(fields).to.deep.equal({
      name: 'is too short',
      'schedule.time': 'must be a time',
      'query.page': 'must be a number',
    });
  });

  it('has no fields if the details are something else', () => {
    expect(refused(undefined).fields).to.deep.equal({});
    expect(refused({ loginUrl: '/sso' }).fields).to.deep.equal({});
  });
});
