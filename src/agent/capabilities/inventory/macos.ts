import { z } from 'zod';
import { AgentError } from '../../core/agent-error.ts';
import { filled, type FoundSoftware, lastUserOf, type Look, said } from './collector.ts';

/** `system_profiler` looks at each application there is, which on a slow disk takes a while. */
const PROFILER_MS = 180_000;

const Text = z.string().optional();
const Profile = z.object({
  SPHardwareDataType: z
    .array(
      z.object({
        machine_model: Text,
        machine_name: Text,
        serial_number: Text,
        chip_type: Text,
        cpu_type: Text,
      }),
    )
    .default([]),
  SPDisplaysDataType: z.array(z.object({ sppci_model: Text, _name: Text })).default([]),
  SPApplicationsDataType: z
    .array(
      z.object({
        _name: z.string(),
        version: Text,
        path: Text,
        obtained_from: Text,
        lastModified: Text,
        signed_by: z.array(z.string()).optional(),
      }),
    )
    .optional(),
});
type Application = NonNullable<z.infer<typeof Profile>['SPApplicationsDataType']>[number];

export const lookAtMacos: Look = async (sources, { software }) => {
  const types = ['SPHardwareDataType', 'SPDisplaysDataType', ...(software ? ['SPApplicationsDataType'] : [])];
  const profile = parseProfile(await sources.output('system_profiler', ['-json', ...types], PROFILER_MS));
  const [machine] = profile.SPHardwareDataType;
  const [graphics] = profile.SPDisplaysDataType;
  const mayFail = async (program: string, args: string[]) =>
    (await sources.output(program, args).catch(() => undefined)) ?? '';
  const applications = profile.SPApplicationsDataType;
  return {
    hardware: {
      manufacturer: 'Apple Inc.',
      model: said(machine?.machine_model) ?? said(machine?.machine_name),
      serialNumber: said(machine?.serial_number),
      cpuModel: said(machine?.chip_type) ?? said(machine?.cpu_type),
      gpuModel: said(graphics?.sppci_model) ?? said(graphics?._name),
    },
    primaryInterface: /^\s*interface: (\S+)/m.exec(await mayFail('route', ['-n', 'get', 'default']))?.[1],
    lastUser: software ? lastUserOf(await mayFail('last', ['-50'])) : undefined,
    software:
      applications === undefined
        ? undefined
        : [
            ...applications.filter(isForPeople).map(application),
            ...parsePackages(await mayFail('pkgutil', ['--regexp', '--pkg-info', '^(?!com\\.apple\\.).*'])),
          ],
  };
};

function parseProfile(output: string | undefined): z.infer<typeof Profile> {
  try {
    return Profile.parse(JSON.parse(output ?? '{}'));
  } catch (error) {
    throw new AgentError('FAILED', `system_profiler told what cannot be read: ${String(error)}`);
  }
}

/** The system's own helpers are hundreds, and change with the system. */
const isForPeople = ({ path = '' }: Application) =>
  !/^\/(System\/Library|usr|Library\/Image Capture)\//.test(path);

function application({ _name, version, obtained_from, lastModified, signed_by }: Application): FoundSoftware {
  const at = Date.parse(lastModified ?? '');
  return {
    name: _name,
    version: filled(version),
    publisher: obtained_from === 'apple' ? 'Apple' : signer(signed_by?.[0]),
    installedAt: Number.isNaN(at) ? undefined : at,
  };
}

/** `Developer ID Application: Mozilla Corporation (43AQ936H96)` */
const signer = (text: string | undefined) =>
  filled(/^(?:Developer ID Application|Apple Distribution): (.+?)(?: \(\w+\))?$/.exec(text ?? '')?.[1]);

/** `pkgutil --pkg-info`: a block of `key: value` lines a package. */
export function parsePackages(output: string): FoundSoftware[] {
  return output.split(/\n(?=package-id: )/).flatMap((block) => {
    const value = (key: string) => new RegExp(`^${key}: (.*)$`, 'm').exec(block)?.[1];
    const name = filled(value('package-id'));
    const seconds = Number(value('install-time'));
    return name === undefined
      ? []
      : [{ name, version: filled(value('version')), installedAt: seconds > 0 ? seconds * 1000 : undefined }];
  });
}
