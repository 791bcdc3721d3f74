export { DataTable, type DataColumn } from './data-table.tsx';
