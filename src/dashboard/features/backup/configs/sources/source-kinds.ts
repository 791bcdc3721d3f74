import type { Sources } from './source-form.ts';

/** What people call the kinds of sources, in the order in which they are offered. */
export const KIND_NAMES: { readonly [K in Sources['kind']]: string } = {
  files: 'Files',
  image: 'Whole disks',
  database: 'Databases',
  mssql: 'SQL Server',
  hyperv: 'Machines of Hyper-V',
  kvm: 'Machines of KVM',
};
