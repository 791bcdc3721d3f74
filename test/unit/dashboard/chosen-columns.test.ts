import { expect } from 'chai';
import { columnsToShow, detailsToAsk } from '../../../src/dashboard/features/devices/chosen-columns.ts';

describe('the columns of the list of devices', () => {
  const all = ['name', 'status', 'tags', 'custom.room'].map((id) => ({ id }));
  const shown = (chosen: readonly string[]) =>
    columnsToShow(all, chosen, ['name', 'status']).map(({ id }) => id);

  it('are those that a view names, each once, without custom fields that have been removed', () => {
    expect(shown(['tags', 'custom.gone', 'custom.room', 'tags'])).to.deep.equal(['tags', 'custom.room']);
  });

  it('are the usual ones if a view names none that there is', () => {
    expect(shown(['custom.gone', '<b>x</b>'])).to.deep.equal(['name', 'status']);
  });

  it('ask the server for what it knows, and for no more custom fields at once than it takes', () => {
    const properties = ['tags', 'lastIp'];
    const customKeys = Array.from({ length: 45 }, (_, at) => `field${at + 10}`);
    const asked = (chosen: readonly string[]) => detailsToAsk(chosen, { properties, customKeys });
    expect(asked(['name', 'custom.gone', 'custom.', 'custom.field10,field11'])).to.deep.equal([]);
    expect(asked(['lastIp', 'tags', 'name'])).to.deep.equal([{ columns: 'tags,lastIp', customFields: '' }]);
    const many = asked(['tags', 'custom.gone', ...customKeys.map((key) => `custom.${key}`)]);
    expect(many.map(({ columns }) => columns)).to.deep.equal(['tags', '', '']);
    expect(many.map(({ customFields }) => customFields.split(',').length)).to.deep.equal([20, 20, 5]);
    expect(many.flatMap(({ customFields }) => customFields.split(','))).to.deep.equal(customKeys);
  });
});
