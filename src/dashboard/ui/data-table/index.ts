export { DataTable } from './data-table.tsx';
export type { DataColumn } from './table-row.tsx';
