import { describeAskedRoutes } from '../../contract/asked-routes.ts';
import { allRows } from '../../contract/row-kinds.ts';

describeAskedRoutes('every route', allRows);
