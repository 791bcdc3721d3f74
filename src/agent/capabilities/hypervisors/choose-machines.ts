import { MachineErrorCode } from '../../../protocol/index.ts';

interface Named {
  id: string;
  name: string;
}

export interface Choice<M extends Named> {
  chosen: M[];
  /** Names and ids that stand for no machine, or for several. */
  refused: { name: string; code: string; message: string }[];
}

/** The machines that a configuration names by their ids or names. An id wins over a machine that has it as its name. */
export function chooseMachines<M extends Named>(
  machines: readonly M[],
  wanted: 'all' | readonly string[],
): Choice<M> {
  if (wanted === 'all') return { chosen: [...machines], refused: [] };
  const chosen = new Map<string, M>();
  const refused: Choice<M>['refused'] = [];
  for (const name of wanted) {
    const byId = machines.find(({ id }) => id === name.toLowerCase());
    const found = byId === undefined ? machines.filter((machine) => isCalled(machine, name)) : [byId];
    const [one] = found;
    if (one !== undefined && found.length === 1) chosen.set(one.id, one);
    else if (one === undefined) {
      refused.push({
        name,
        code: MachineErrorCode.machineMissing,
        message: 'There is no machine with this name or id.',
      });
    } else {
      const message = `${found.length} machines have this name. Use the id of one.`;
      refused.push({ name, code: MachineErrorCode.machineAmbiguous, message });
    }
  }
  return { chosen: [...chosen.values()], refused };
}

/** Hypervisors of Windows ignore case in names. */
const isCalled = ({ name }: Named, wanted: string) => name.toLowerCase() === wanted.toLowerCase();
